//! Commands on members, endpoints and their maintenance.

use cli::{BLANK, Command, Flag, Group, int, switch, text_flag as text};

const ALL_MEMBERS: Flag = switch("cluster", "use all endpoints from the cluster member list");

pub(super) const MEMBER: Command = Command {
    usage: "member <subcommand>",
    short: "Membership related commands. Use `etcdctl member --help` to see subcommands",
    long: "Membership related commands",
    group: Some(Group::Maintenance),
    children: &[
        Command {
            usage: "add <memberName> [options]",
            short: "Adds a member into the cluster",
            flags: &[
                switch("learner", "indicates if the new member is raft learner"),
                text("peer-urls", "", "comma separated peer URLs for the new member."),
            ],
            ..BLANK
        },
        Command {
            usage: "list",
            short: "Lists all members in the cluster",
            long: "When --write-out is set to simple, this command prints out comma-separated member lists for each \
                   endpoint.\nThe items in the lists are ID, Status, Name, Peer Addrs, Client Addrs, Is Learner.\n",
            flags: &[text("consistency", "l", "Linearizable(l) or Serializable(s)")],
            ..BLANK
        },
        Command {
            usage: "promote <memberID>",
            short: "Promotes a non-voting member in the cluster",
            long: "Promotes a non-voting learner member to a voting one in the cluster.\n",
            ..BLANK
        },
        Command { usage: "remove <memberID>", short: "Removes a member from the cluster", ..BLANK },
        Command {
            usage: "update <memberID> [options]",
            short: "Updates a member in the cluster",
            flags: &[text("peer-urls", "", "comma separated peer URLs for the updated member.")],
            ..BLANK
        },
    ],
    ..BLANK
};

pub(super) const ENDPOINT: Command = Command {
    usage: "endpoint <subcommand>",
    short: "Endpoint related commands. Use `etcdctl endpoint --help` to see subcommands",
    long: "Endpoint related commands",
    group: Some(Group::Maintenance),
    shared_flags: &[ALL_MEMBERS],
    children: &[
        Command {
            usage: "hashkv",
            short: "Prints the KV history hash for each endpoint in --endpoints",
            flags: &[int("rev", "maximum revision to hash (default: latest revision)")],
            ..BLANK
        },
        Command {
            usage: "health",
            short: "Checks the healthiness of endpoints specified in `--endpoints` flag",
            ..BLANK
        },
        Command {
            usage: "status",
            short: "Prints out the status of endpoints specified in `--endpoints` flag",
            long: "When --write-out is set to simple, this command prints out comma-separated status lists for each \
                   endpoint.\nThe items in the lists are endpoint, ID, version, db size, is leader, is learner, raft \
                   term, raft index, raft applied index, errors.\n",
            ..BLANK
        },
    ],
    ..BLANK
};

pub(super) const ALARM: Command = Command {
    usage: "alarm <subcommand>",
    short: "Alarm related commands. Use `etcdctl alarm --help` to see subcommands",
    long: "Alarm related commands",
    group: Some(Group::Maintenance),
    children: &[
        Command { usage: "disarm", short: "Disarms all alarms", ..BLANK },
        Command { usage: "list", short: "Lists all alarms", ..BLANK },
    ],
    ..BLANK
};

pub(super) const DEFRAG: Command = Command {
    usage: "defrag",
    short: "Defragments the storage of the etcd members with given endpoints",
    group: Some(Group::Maintenance),
    shared_flags: &[ALL_MEMBERS],
    ..BLANK
};

pub(super) const MOVE_LEADER: Command = Command {
    usage: "move-leader <transferee-member-id>",
    short: "Transfers leadership to another etcd cluster member.",
    group: Some(Group::Maintenance),
    ..BLANK
};

pub(super) const DOWNGRADE: Command = Command {
    usage: "downgrade <TARGET_VERSION>",
    short: "Downgrade related commands. Use `etcdctl downgrade --help` to see subcommands",
    long: "Downgrade related commands",
    group: Some(Group::Maintenance),
    children: &[
        Command { usage: "cancel", short: "Cancel the ongoing downgrade action to cluster", ..BLANK },
        Command { usage: "enable <TARGET_VERSION>", short: "Start a downgrade action to cluster", ..BLANK },
        Command {
            usage: "validate <TARGET_VERSION>",
            short: "Validate downgrade capability before starting downgrade",
            ..BLANK
        },
    ],
    ..BLANK
};

/// The empty lines have two spaces, as etcdctl prints them.
const SAVE_EXAMPLES: &str = "  # Save snapshot to a given file
  etcdctl snapshot save /backup/etcd-snapshot.db
\x20\x20
  # Get snapshot from given address and save it to file
  etcdctl snapshot save --endpoints=127.0.0.1:3000 /backup/etcd-snapshot.db
\x20\x20
  # Get snapshot from given address with certificates
  etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/etcd/ca.crt --cert=/etc/etcd/etcd.crt \
                             --key=/etc/etcd/etcd.key snapshot save /backup/etcd-snapshot.db
\x20\x20
  # Get snapshot with certain user and password
  etcdctl --user=root --password=password123 snapshot save /backup/etcd-snapshot.db
\x20\x20
  # Get snapshot from given address with timeout
  etcdctl --endpoints=https://127.0.0.1:2379 --dial-timeout=20s snapshot save /backup/etcd-snapshot.db
\x20\x20
  # Save snapshot with desirable time format
  etcdctl snapshot save /mnt/backup/etcd/backup_$(date +%Y%m%d_%H%M%S).db";

pub(super) const SNAPSHOT: Command = Command {
    usage: "snapshot <subcommand>",
    short: "Manages etcd node snapshots",
    example: SAVE_EXAMPLES,
    group: Some(Group::Maintenance),
    children: &[Command {
        usage: "save <filename>",
        short: "Stores an etcd node backend snapshot to a given file",
        example: SAVE_EXAMPLES,
        ..BLANK
    }],
    ..BLANK
};

pub(super) const STATUS: Command = Command {
    usage: "status",
    short: "Tells whether the cluster is healthy, and what to do if it is not",
    long: "Tells whether the cluster is healthy, and what to do if it is not.

Asks all members, not only those of --endpoints. Exit code: 0 if the cluster is healthy, 1 if it is not.",
    group: Some(Group::Maintenance),
    own: true,
    ..BLANK
};

pub(super) const TOP: Command = Command {
    usage: "top",
    short: "Shows all members on one screen: requests, latencies, leader, lag, sizes, watchers",
    long: "Shows all members on one screen: requests, latencies, leader, lag, sizes, watchers.

The figures come from Status and /metrics of each member. Ctrl-C ends it.",
    group: Some(Group::Maintenance),
    flags: &[
        Flag { kind: cli::Kind::Duration, ..text("interval", "1s", "time between two screens") },
        int("times", "number of screens, 0 for no end"),
    ],
    own: true,
    ..BLANK
};

pub(super) const RELOAD: Command = Command {
    usage: "reload",
    short: "Reloads the configuration of the members at the given endpoints",
    long: "Reloads the configuration of the members at the given endpoints, as SIGHUP does.

Says of each what changed, and what needs a restart. If anything is wrong with a configuration, its member keeps the one
before, and the exit code is 1. With authentication it is for the role root.",
    group: Some(Group::Maintenance),
    shared_flags: &[ALL_MEMBERS],
    own: true,
    ..BLANK
};
