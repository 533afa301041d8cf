//! Locks, elections, checks, mirrors, and the commands about this program.

use cli::{BLANK, Command, Flag, Group, Kind, int, switch, switch_on, text_flag as text};

/// Shells that a script for completion can be made for.
const SHELLS: &str = "completion [bash|zsh|fish|powershell]";

const LOAD_CHOICES: &[&str] = &["small", "medium", "large", "xLarge"];

pub(super) const LOCK: Command = Command {
    usage: "lock <lockname> [exec-command arg1 arg2 ...]",
    short: "Acquires a named lock",
    group: Some(Group::Concurrency),
    flags: &[Flag { default: "10", ..int("ttl", "timeout for session") }],
    ..BLANK
};

pub(super) const ELECT: Command = Command {
    usage: "elect <election-name> [proposal]",
    short: "Observes and participates in leader election",
    group: Some(Group::Concurrency),
    flags: &[Flag { short: Some('l'), ..switch("listen", "observation mode") }],
    ..BLANK
};

const COMPACT_AFTER: Flag =
    switch("auto-compact", "Compact storage with last revision after test is finished.");
const DEFRAG_AFTER: Flag = switch("auto-defrag", "Defragment storage after test is finished.");

pub(super) const CHECK: Command = Command {
    usage: "check <subcommand>",
    short: "commands for checking properties of the etcd cluster. Use `etcdctl check --help` to see subcommands",
    long: "commands for checking properties of the etcd cluster",
    group: Some(Group::Utility),
    children: &[
        Command {
            usage: "datascale [options]",
            short: "Check the memory usage of holding data for different workloads on a given server endpoint.",
            long: "If no endpoint is provided, localhost will be used. If multiple endpoints are provided, first \
                   endpoint will be used.",
            flags: &[
                COMPACT_AFTER,
                DEFRAG_AFTER,
                text(
                    "load",
                    "s",
                    "The datascale check's workload model. Accepted workloads: s(small), m(medium), l(large), \
                     xl(xLarge)",
                ),
                text(
                    "prefix",
                    "/etcdctl-check-datascale/",
                    "The prefix for writing the datascale check's keys.",
                ),
            ],
            ..BLANK
        },
        Command {
            usage: "perf [options]",
            short: "Check the performance of the etcd cluster",
            flags: &[
                COMPACT_AFTER,
                DEFRAG_AFTER,
                Flag {
                    choices: LOAD_CHOICES,
                    ..text(
                        "load",
                        "s",
                        "The performance check's workload model. Accepted workloads: s(small), m(medium), l(large), \
                         xl(xLarge). Different workload models use different configurations in terms of number of \
                         clients and expected throughput.",
                    )
                },
                text(
                    "prefix",
                    "/etcdctl-check-perf/",
                    "The prefix for writing the performance check's keys.",
                ),
            ],
            ..BLANK
        },
    ],
    ..BLANK
};

const DEST_CACERT: Flag =
    text("dest-cacert", "", "Verify certificates of TLS enabled secure servers using this CA bundle");
const DEST_CERT: Flag = text(
    "dest-cert",
    "",
    "Identify secure client using this TLS certificate file for the destination cluster",
);
const DEST_INSECURE: Flag =
    switch_on("dest-insecure-transport", "Disable transport security for client connections");
const DEST_KEY: Flag = text("dest-key", "", "Identify secure client using this TLS key file");
const DEST_PASSWORD: Flag = text(
    "dest-password",
    "",
    "Destination password for authentication (if this option is used, --user option shouldn't include password)",
);
const DEST_USER: Flag = text(
    "dest-user",
    "",
    "Destination username[:password] for authentication (prompt if password is not supplied)",
);

pub(super) const MAKE_MIRROR: Command = Command {
    usage: "make-mirror [options] <destination>",
    short: "Makes a mirror at the destination etcd cluster",
    group: Some(Group::Utility),
    flags: &[
        DEST_CACERT,
        DEST_CERT,
        DEST_INSECURE,
        DEST_KEY,
        DEST_PASSWORD,
        text(
            "dest-prefix",
            "",
            "destination prefix to mirror a prefix to a different prefix in the destination cluster",
        ),
        DEST_USER,
        Flag {
            kind: Kind::Uint,
            ..text(
                "max-txn-ops",
                "128",
                "Maximum number of operations permitted in a transaction during syncing updates.",
            )
        },
        switch("no-dest-prefix", "mirror key-values to the root of the destination cluster"),
        text("prefix", "", "Key-value prefix to mirror"),
        int("rev", "Specify the kv revision to start to mirror"),
    ],
    ..BLANK
};

pub(super) const FOLLOW: Command = Command {
    usage: "follow [options] <destination>",
    short: "Copies a running cluster into another one, then all changes as they come",
    long: "Copies a running cluster, of etcd or of Stele, into another one, then all changes as they come.

--endpoints names the source, the argument the destination: endpoints, separated by commas. Each revision of
the source becomes one transaction of the destination, and leases keep their ids. How far the copy has come
is stored in the destination with the data, so the command goes on where it was interrupted. To switch:

$ stele ctl follow --endpoints=$OLD $NEW            # until it says that it has caught up
  stop the writers of the source
$ stele ctl follow --endpoints=$OLD --until-caught-up --verify --finish $NEW
  point the clients to the destination if the exit code is 0",
    group: Some(Group::Utility),
    flags: &[
        DEST_CACERT,
        DEST_CERT,
        DEST_INSECURE,
        DEST_KEY,
        DEST_PASSWORD,
        DEST_USER,
        switch("finish", "remove the state key at the end; needs --until-caught-up"),
        Flag {
            kind: Kind::Duration,
            ..text("interval", "10s", "time between two lines of progress where the output is no terminal")
        },
        switch(
            "keep-revisions",
            "give each change the revision it has in the source; the destination must be new",
        ),
        Flag {
            kind: Kind::Uint,
            ..text("max-txn-ops", "128", "Operations that the destination permits in a transaction")
        },
        text("prefix", "", "Copy only the keys that begin so"),
        switch("replace", "begin although the destination has keys: those that the source lacks are deleted"),
        text("state-key", "stele-follow", "Key in the destination that stores the progress of the copy"),
        switch("until-caught-up", "end when the destination has all that the source had at the start"),
        switch("verify", "compare all keys and values once the destination has caught up"),
    ],
    own: true,
    ..BLANK
};

pub(super) const BACKUP: Command = Command {
    usage: "backup [options] <archive>",
    short: "Copies a running cluster into an archive, then all changes as they come",
    long: "Copies the state of a running cluster into an archive, and then each change, so that every state since can be
restored: keys, leases, alarms, users and roles, by revision or by time.

The archive is a directory or a part of an S3-compatible store, which the variables AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_REGION and, if it is not Amazon's, AWS_ENDPOINT describe. The command goes on
where it was interrupted.

$ stele ctl backup file:///var/backup/stele
$ stele ctl backup s3://bucket/cluster --encryption-key-file key --keep 720h
$ stele utl restore s3://bucket/cluster --encryption-key-file key --to-time 2026-11-23T18:30:00Z --data-dir new",
    group: Some(Group::Utility),
    flags: &[
        Flag {
            kind: Kind::Duration,
            ..text("base-interval", "24h", "time between two copies of the whole state")
        },
        text(
            "encryption-key-file",
            "",
            "file with the key of the archive, 64 hexadecimal digits; without one it is not encrypted",
        ),
        Flag {
            kind: Kind::Duration,
            ..text(
                "interval",
                "10s",
                "time between two copies of changes; the last interval may be lost with the cluster",
            )
        },
        Flag {
            kind: Kind::Duration,
            ..text("keep", "0s", "delete objects not needed to restore to any time within this period; 0s keeps all")
        },
        switch("once", "end when the archive has all that the cluster had at the start"),
    ],
    own: true,
    ..BLANK
};

pub(super) const OPTIONS: Command = Command {
    usage: "options",
    short: "Show the global command-line flags",
    group: Some(Group::Utility),
    ..BLANK
};

pub(super) const VERSION: Command = Command {
    usage: "version",
    short: "Prints the version of etcdctl",
    group: Some(Group::Utility),
    ..BLANK
};

pub(super) const HELP: Command = Command {
    usage: "help [command]",
    short: "Help about any command",
    long: "Help provides help for any command in the application.
Simply type etcdctl help [path to command] for full details.",
    group: Some(Group::Utility),
    ..BLANK
};

pub(super) const COMPLETION: Command = Command {
    usage: SHELLS,
    short: "Generate completion script",
    long: "To load completions:

Bash:

  $ source <(etcdctl completion bash)

  # To load completions for each session, execute once:
  # Linux:
  $ etcdctl completion bash > /etc/bash_completion.d/etcdctl
  # macOS:
  $ etcdctl completion bash > /usr/local/etc/bash_completion.d/etcdctl

Zsh:

  # If shell completion is not already enabled in your environment,
  # you will need to enable it.  You can execute the following once:

  $ echo \"autoload -U compinit; compinit\" >> ~/.zshrc

  # To load completions for each session, execute once:
  $ etcdctl completion zsh > \"${fpath[1]}/_etcdctl\"

  # You will need to start a new shell for this setup to take effect.

fish:

  $ etcdctl completion fish | source

  # To load completions for each session, execute once:
  $ etcdctl completion fish > ~/.config/fish/completions/etcdctl.fish

PowerShell:

  PS> etcdctl completion powershell | Out-String | Invoke-Expression

  # To load completions for every new session, run:
  PS> etcdctl completion powershell > etcdctl.ps1
  # and source this file from your PowerShell profile.
",
    group: Some(Group::Utility),
    ..BLANK
};
