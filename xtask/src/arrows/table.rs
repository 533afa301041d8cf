//! The table of arrows: the only place where a dependency between crates of ours is allowed.

use std::collections::BTreeSet;

/// A crate of ours and the crates of ours it may depend on.
pub(super) struct Arrow {
    pub(super) from: &'static str,
    pub(super) to: &'static [&'static str],
    pub(super) reason: &'static str,
}

pub(super) const ARROWS: &[Arrow] = &[
    Arrow { from: "stele-api", to: &[], reason: "wire types depend on no other crate" },
    Arrow { from: "stele-crc32c", to: &[], reason: "it sums bytes" },
    Arrow { from: "stele-http2", to: &[], reason: "a protocol between bytes and events, without I/O" },
    Arrow { from: "stele-cli", to: &[], reason: "how lines are read, whatever the commands do" },
    Arrow {
        from: "stele-dbfile",
        to: &["stele-api"],
        reason: "a file of etcd's: pages and records of its messages, not what this store makes of them",
    },
    Arrow {
        from: "stele-gateway",
        to: &["stele-api"],
        reason: "JSON to messages and back: not who sends it, nor what a message means",
    },
    Arrow {
        from: "stele-log",
        to: &["stele-crc32c"],
        reason: "files hold bytes: not what they mean, nor who agreed on them",
    },
    Arrow {
        from: "stele-store",
        to: &["stele-api", "stele-crc32c"],
        reason: "the state machine knows requests, not files or raft",
    },
    Arrow {
        from: "stele-consensus",
        to: &["stele-crc32c"],
        reason: "agreement is on bytes; its log is fed by member",
    },
    Arrow {
        from: "stele-member",
        to: &["stele-api", "stele-consensus", "stele-crc32c", "stele-log", "stele-store"],
        reason: "the one place that ties log, store and consensus",
    },
    Arrow {
        from: "stele-dbstate",
        to: &["stele-api", "stele-dbfile", "stele-store"],
        reason: "the state as etcd's records, for who sends or writes it",
    },
    Arrow {
        from: "stele-transport",
        to: &["stele-crc32c"],
        reason: "it moves frames of bytes between members",
    },
    Arrow {
        from: "stele-server",
        to: &[
            "stele-api",
            "stele-archive",
            "stele-dbfile",
            "stele-dbstate",
            "stele-gateway",
            "stele-http2",
            "stele-log",
            "stele-member",
            "stele-store",
            "stele-transport",
        ],
        reason: "the edge: threads, disks, sockets and services around a member; raft stays behind member",
    },
    Arrow {
        from: "stele-archive",
        to: &["stele-api", "stele-crc32c"],
        reason: "objects in a store: who answers with entries, and what they mean, is others' business",
    },
    Arrow {
        from: "stele-ctl",
        to: &["stele-api", "stele-archive", "stele-cli"],
        reason: "a client: it asks what any client could ask, and may write it into an archive",
    },
    Arrow {
        from: "stele-utl",
        to: &[
            "stele-api",
            "stele-archive",
            "stele-cli",
            "stele-crc32c",
            "stele-dbfile",
            "stele-dbstate",
            "stele-log",
            "stele-member",
            "stele-store",
        ],
        reason: "files of a member that does not run, those of etcd, and archives; no servers, no clients",
    },
    Arrow {
        from: "stele-plots",
        to: &[],
        reason: "it draws numbers, and knows nothing of who measured them",
    },
    Arrow {
        from: "stele-bench",
        to: &["stele-api", "stele-cli", "stele-ctl", "stele-http2", "stele-plots"],
        reason: "a client: what it measures, it sees as any client; flags, errors and TLS are ctl's, pages cli's",
    },
    Arrow {
        from: "stele",
        to: &["stele-bench", "stele-ctl", "stele-server", "stele-utl"],
        reason: "the binary chooses an entry point",
    },
    Arrow {
        from: "sim",
        to: &["stele-api", "stele-consensus", "stele-crc32c", "stele-log", "stele-member", "stele-store"],
        reason: "it drives the same core, without the edge",
    },
    Arrow {
        from: "powerloss",
        to: &["stele-api", "stele-log", "stele-member", "stele-store"],
        reason: "it runs a member over a disk that records, without sockets and services",
    },
    Arrow {
        from: "xtask",
        to: &["stele-plots"],
        reason: "the gate must build when the product does not; pages are drawn by a crate that knows nothing of it",
    },
];

/// Libraries and the only crates of ours that may depend on them.
pub(super) struct Door {
    pub(super) libraries: &'static [&'static str],
    pub(super) only: &'static [&'static str],
    pub(super) reason: &'static str,
}

pub(super) const DOORS: &[Door] = &[
    Door {
        libraries: &["crc-fast"],
        only: &["stele-crc32c"],
        reason: "formats name the sum; who computes it can be replaced in one crate",
    },
    Door {
        libraries: &["raft", "raft-proto", "protobuf", "slog"],
        only: &["stele-consensus"],
        reason: "the raft library, its codec and its logger can be replaced in one crate",
    },
    Door {
        libraries: &["tokio", "tokio-stream", "hyper", "hyper-util", "axum", "tower", "h2"],
        only: &["stele-archive", "stele-bench", "stele-ctl", "stele-server", "stele-transport"],
        reason: "runtimes and sockets are the edge's",
    },
    Door {
        libraries: &["object_store", "reqwest"],
        only: &["stele-archive"],
        reason: "what is in a store is read and written in one crate",
    },
    Door {
        libraries: &["rustls", "tokio-rustls", "rcgen", "x509-parser", "dns-lookup"],
        only: &["stele-archive", "stele-bench", "stele-ctl", "stele-server", "stele-transport"],
        reason: "TLS is the edge's: what is decided does not depend on how bytes came",
    },
    Door {
        libraries: &["prost"],
        only: &[
            "stele-api",
            "stele-archive",
            "stele-bench",
            "stele-ctl",
            "stele-dbfile",
            "stele-gateway",
            "stele-member",
            "stele-server",
            "stele-utl",
            "sim",
            "powerloss",
        ],
        reason: "wire bytes are made and read at the door: member decodes commands, server the streams, dbfile and utl \
                 etcd's records, archive its objects, gateway makes them of JSON; ctl and bench are clients, sim and \
                 powerloss play them",
    },
    Door {
        libraries: &["prost-reflect"],
        only: &["stele-gateway"],
        reason: "everywhere else the types of messages are known when it is compiled",
    },
    Door {
        libraries: &["rustix"],
        only: &[
            "stele",
            "stele-bench",
            "stele-cli",
            "stele-ctl",
            "stele-log",
            "stele-server",
            "stele-transport",
            "stele-utl",
        ],
        reason: "the system is called where the process, the files and the peers' sockets are",
    },
];

/// Crates whose whole tree must be free of [`RUNTIMES`].
pub(super) const DETERMINISTIC: &[&str] = &[
    "stele-dbfile",
    "stele-gateway",
    "stele-http2",
    "stele-log",
    "stele-store",
    "stele-consensus",
    "stele-member",
    "sim",
];

pub(super) const RUNTIMES: &[&str] = &["tokio", "mio", "hyper", "h2", "async-std", "smol"];

/// The crates that `name` may know, directly or through others.
pub(crate) fn known_by(name: &str) -> BTreeSet<&'static str> {
    let below = |name: &str| ARROWS.iter().find(|arrow| arrow.from == name).map_or(&[][..], |arrow| arrow.to);
    let mut known = BTreeSet::new();
    let mut pending = below(name).to_vec();
    while let Some(next) = pending.pop() {
        if known.insert(next) {
            pending.extend(below(next));
        }
    }
    known
}
