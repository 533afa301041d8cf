//! The table of commands: names, flags and texts of etcdutl 3.7.3, and the commands of our own.

use cli::{BLANK, Command, Flag, Kind, PageLayout, Program, int, switch, text_flag as text};

/// `etcdutl`: exactly etcdutl's commands.
pub(crate) const ETCDUTL: Program =
    Program { name: "etcdutl", original: "etcdutl", root: &ROOT, layout: PageLayout::Terse };

/// `stele utl`: those, and ours.
pub(crate) const STELE_UTL: Program = Program { name: "stele utl", ..ETCDUTL };

/// Formats that a command may print in.
const FORMATS: &[&str] = &["fields", "json", "protobuf", "simple", "table"];

const fn uint(name: &'static str, default: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Uint, default, usage, choices: &[] }
}

/// The flags that a command cannot do without, as cobra names them.
pub(crate) fn required_flags(words: &str) -> &'static [&'static str] {
    match words {
        "restore" => &["data-dir"],
        "repair" => &["data-dir", "backup-dir"],
        "defrag" | "export" | "inspect" | "verify" | "import" => &["data-dir"],
        "migrate" => &["data-dir", "target-version"],
        _ => &[],
    }
}

const DATA_DIR: Flag = text("data-dir", "", "Path to the output data directory");
const WAL_DIR: Flag = text("wal-dir", "", "Path to the WAL directory (use --data-dir if none given)");
const CLUSTER: Flag = text(
    "initial-cluster",
    "default=http://localhost:2380",
    "Initial cluster configuration for restore bootstrap",
);
const TOKEN: Flag = text(
    "initial-cluster-token",
    "etcd-cluster",
    "Initial cluster token for the etcd cluster during restore bootstrap",
);
const PEER_URLS: Flag = text(
    "initial-advertise-peer-urls",
    "http://localhost:2380",
    "List of this member's peer URLs to advertise to the rest of the cluster",
);
const NAME: Flag = text("name", "default", "Human-readable name for this member");
const BUMP: Flag = uint("bump-revision", "0", "How much to increase the latest revision after restore");
const MARK: Flag = switch(
    "mark-compacted",
    "Mark the latest revision after restore as the point of scheduled compaction (required if --bump-revision > 0, \
     disallowed otherwise)",
);

/// `--name` and `--initial-cluster` of a command that keeps the members unless a new cluster is requested.
const MEMBER: Flag = text(
    "name",
    "",
    "Name of the member that the directory is for (default the one whose directory is read; of a new cluster \
     \"default\")",
);
const REPLACING_CLUSTER: Flag = text(
    "initial-cluster",
    "",
    "Initial cluster configuration of a new cluster; without it the members, their ids and the cluster id stay",
);

const RESTORE: Command = Command {
    usage: "restore <filename> --data-dir {output dir} [options]",
    short: "Restores an etcd member snapshot to an etcd directory",
    flags: &[
        DATA_DIR,
        WAL_DIR,
        CLUSTER,
        TOKEN,
        PEER_URLS,
        NAME,
        switch(
            "skip-hash-check",
            "Ignore snapshot integrity hash value (required if copied from data directory)",
        ),
        uint(
            "initial-memory-map-size",
            "10737418240",
            "Initial memory map size of the database in bytes. It uses the default value if not defined or defined \
             to 0",
        ),
        BUMP,
        MARK,
    ],
    ..BLANK
};

const SNAPSHOT: Command = Command {
    usage: "snapshot",
    short: "Manages etcd node snapshots",
    children: &[
        RESTORE,
        Command {
            usage: "status <filename>",
            short: "Gets backend snapshot status of a given file",
            ..BLANK
        },
    ],
    ..BLANK
};

const MIGRATE: Command = Command {
    usage: "migrate",
    short: "Migrates schema of etcd data dir files to make them compatible with different etcd version",
    flags: &[
        text("data-dir", "", "Path to the etcd data dir"),
        text(
            "target-version",
            "",
            "Target etcd version to migrate contents of data dir. Minimal value 3.5. Format \"X.Y\" for example 3.6.",
        ),
        switch("force", "Ignore migration failure and forcefully override storage version. Not recommended."),
    ],
    ..BLANK
};

const STELE_DIR: Flag = text("data-dir", "", "Required. Path to a data directory that no member uses");
const STELE_WAL: Flag = text("wal-dir", "", "Path to its WAL directory, if that is a separate one");

const IMPORT: Command = Command {
    usage: "import <data directory of etcd> --data-dir {output dir}",
    short: "Makes a data directory from that of a stopped etcd member",
    flags: &[
        DATA_DIR,
        WAL_DIR,
        REPLACING_CLUSTER,
        TOKEN,
        PEER_URLS,
        MEMBER,
        BUMP,
        MARK,
        switch("committed-only", "Leave out entries of its log that it does not know to be committed"),
    ],
    own: true,
    ..BLANK
};

const EXPORT: Command = Command {
    usage: "export <filename or directory> --data-dir {data dir}",
    short: "Writes the state of a member that was stopped as a snapshot, for etcd and for restore",
    flags: &[
        STELE_DIR,
        STELE_WAL,
        switch("as-directory", "Write a data directory, with which etcd can be started"),
        REPLACING_CLUSTER,
        TOKEN,
        PEER_URLS,
        MEMBER,
    ],
    own: true,
    ..BLANK
};

const INSPECT: Command = Command {
    usage: "inspect --data-dir {data dir}",
    short: "Shows what is in the files of a member that was stopped",
    flags: &[STELE_DIR, STELE_WAL, switch("entries", "Show the entries of the log too, one on a line")],
    own: true,
    ..BLANK
};

const REPAIR: Command = Command {
    usage: "repair --data-dir {data dir} --backup-dir {copy}",
    short: "Repairs a stopped member's directory without losing data, after copying it",
    flags: &[
        text("backup-dir", "", "Required. Path of a new directory that gets a copy first"),
        STELE_DIR,
        STELE_WAL,
    ],
    own: true,
    ..BLANK
};

const KEY_FILE: Flag =
    text("encryption-key-file", "", "File with the key of the archive, if it is encrypted");

const RESTORE_ARCHIVE: Command = Command {
    usage: "restore <archive> --data-dir {output dir} [options]",
    short: "Makes a data directory with a state from the archive of a continuous backup",
    flags: &[
        DATA_DIR,
        WAL_DIR,
        CLUSTER,
        TOKEN,
        PEER_URLS,
        NAME,
        KEY_FILE,
        uint(
            "to-revision",
            "0",
            "The state after the command that made this revision; the newest state without it",
        ),
        text("to-time", "", "The state at this time, as 2026-11-23T18:30:00Z; the newest state without it"),
        BUMP,
        MARK,
    ],
    own: true,
    ..BLANK
};

const BACKUP: Command = Command {
    usage: "backup",
    short: "Manages archives of continuous backups",
    children: &[Command {
        usage: "verify <archive>",
        short: "Verifies an archive and lists the restorable states",
        flags: &[KEY_FILE],
        own: true,
        ..BLANK
    }],
    own: true,
    ..BLANK
};

const VERIFY: Command = Command {
    usage: "verify --data-dir {data dir}",
    short: "Checks all checksums of a member that was stopped, and changes nothing",
    flags: &[STELE_DIR, STELE_WAL],
    own: true,
    ..BLANK
};

/// The program itself.
pub(crate) static ROOT: Command = Command {
    usage: "etcdutl",
    short: "An administrative command line tool for etcd3.",
    shared_flags: &[
        Flag {
            kind: Kind::Duration,
            ..text("timeout", "10s", "time to wait to obtain a file lock on db file, 0 to block indefinitely")
        },
        Flag {
            short: Some('w'),
            choices: FORMATS,
            ..text("write-out", "simple", "set the output format (fields, json, protobuf, simple, table)")
        },
    ],
    children: &[
        BACKUP,
        Command {
            usage: "completion [bash|zsh|fish|powershell]",
            short: "Generate completion script",
            ..BLANK
        },
        Command {
            usage: "defrag",
            short: "Defragments the storage of the etcd",
            flags: &[text("data-dir", "", "Required. Defragments a data directory not in use by etcd.")],
            ..BLANK
        },
        EXPORT,
        Command {
            usage: "hashkv <filename>",
            short: "Prints the KV history hash of a given file",
            flags: &[int("rev", "maximum revision to hash (default: latest revision)")],
            ..BLANK
        },
        Command { usage: "help [command]", short: "Help about any command", ..BLANK },
        IMPORT,
        INSPECT,
        MIGRATE,
        REPAIR,
        RESTORE_ARCHIVE,
        SNAPSHOT,
        VERIFY,
        Command { usage: "version", short: "Prints the version of etcdutl", ..BLANK },
    ],
    ..BLANK
};
