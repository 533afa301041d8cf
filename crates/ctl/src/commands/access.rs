//! Commands on users, roles and authentication.

use cli::{BLANK, Command, Group, switch, switch_on, text_flag as text};

pub(super) const AUTH: Command = Command {
    usage: "auth <enable or disable>",
    short: "Enable or disable authentication. Use `etcdctl auth --help` to see subcommands",
    long: "Enable or disable authentication",
    group: Some(Group::Authentication),
    children: &[
        Command { usage: "disable", short: "Disables authentication", ..BLANK },
        Command { usage: "enable", short: "Enables authentication", ..BLANK },
        Command { usage: "status", short: "Returns authentication status", ..BLANK },
    ],
    ..BLANK
};

pub(super) const USER: Command = Command {
    usage: "user <subcommand>",
    short: "User related commands. Use `etcdctl user --help` to see subcommands",
    long: "User related commands",
    group: Some(Group::Authentication),
    children: &[
        Command {
            usage: "add <user name or user:password> [options]",
            short: "Adds a new user",
            flags: &[
                switch_on("interactive", "Read password from stdin instead of interactive terminal"),
                text("new-user-password", "", "Supply password from the command line flag"),
                switch("no-password", "Create a user without password (CN based auth only)"),
            ],
            ..BLANK
        },
        Command { usage: "delete <user name>", short: "Deletes a user", ..BLANK },
        Command {
            usage: "get <user name> [options]",
            short: "Gets detailed information of a user",
            flags: &[switch("detail", "Show permissions of roles granted to the user")],
            ..BLANK
        },
        Command { usage: "grant-role <user name> <role name>", short: "Grants a role to a user", ..BLANK },
        Command { usage: "list", short: "Lists all users", ..BLANK },
        Command {
            usage: "passwd <user name> [options]",
            short: "Changes password of user",
            flags: &[switch_on(
                "interactive",
                "If true, read password from stdin instead of interactive terminal",
            )],
            ..BLANK
        },
        Command {
            usage: "revoke-role <user name> <role name>",
            short: "Revokes a role from a user",
            ..BLANK
        },
    ],
    ..BLANK
};

pub(super) const ROLE: Command = Command {
    usage: "role <subcommand>",
    short: "Role related commands. Use `etcdctl role --help` to see subcommands",
    long: "Role related commands",
    group: Some(Group::Authentication),
    children: &[
        Command { usage: "add <role name>", short: "Adds a new role", ..BLANK },
        Command { usage: "delete <role name>", short: "Deletes a role", ..BLANK },
        Command { usage: "get <role name>", short: "Gets detailed information of a role", ..BLANK },
        Command {
            usage: "grant-permission [options] <role name> <permission type> <key> [endkey]",
            short: "Grants a key to a role",
            flags: &[
                switch(
                    "from-key",
                    "grant a permission of keys that are greater than or equal to the given key using byte compare",
                ),
                switch("prefix", "grant a prefix permission"),
            ],
            ..BLANK
        },
        Command { usage: "list", short: "Lists all roles", ..BLANK },
        Command {
            usage: "revoke-permission <role name> <key> [endkey]",
            short: "Revokes a key from a role",
            flags: &[
                switch(
                    "from-key",
                    "revoke a permission of keys that are greater than or equal to the given key using byte compare",
                ),
                switch("prefix", "revoke a prefix permission"),
            ],
            ..BLANK
        },
    ],
    ..BLANK
};
