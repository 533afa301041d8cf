//! Sections "Distributed tracing", "Features" and "Unsafe feature".

use super::flag::{Flag, Section, count, duration, integer, switch, text};

const OWN_STEPS: &str = "history is purged in small steps of its own size";

const fn tracing(flag: Flag) -> Flag {
    flag.section(Section::Tracing)
}

const fn feature(flag: Flag) -> Flag {
    flag.section(Section::Features)
}

pub(super) const TRACING: &[Flag] = &[
    tracing(switch("enable-distributed-tracing", "false", "Export spans by OpenTelemetry.")),
    tracing(text("distributed-tracing-address", "localhost:4317", "Address of the collector.")),
    tracing(text("distributed-tracing-service-name", "etcd", "Name of the service in spans.")),
    tracing(text("distributed-tracing-instance-id", "", "Name of this member in spans.")),
    tracing(integer("distributed-tracing-sampling-rate", "0", "How many spans of a million to export.")),
];

pub(super) const FEATURES: &[Flag] = &[
    feature(duration(
        "corrupt-check-time",
        "0s",
        "How often to compare the members' data; 0 turns that off.",
    )),
    feature(duration(
        "compact-hash-check-time",
        "1m",
        "How often to compare the hashes members computed at compactions, with the gate CompactHashCheck.",
    )),
    feature(integer("compaction-batch-limit", "1000", "Most revisions removed in one step of a compaction."))
        .no_effect(OWN_STEPS),
    feature(switch(
        "peer-skip-client-san-verification",
        "false",
        "Accept a member's certificate that is not for the address it connects from.",
    )),
    feature(duration(
        "watch-progress-notify-interval",
        "10m",
        "How often an idle watch receives the current revision.",
    )),
    feature(duration(
        "warning-apply-duration",
        "100ms",
        "Applying that takes longer is logged as a warning.",
    )),
    feature(count(
        "bootstrap-defrag-threshold-megabytes",
        "0",
        "Defragment at the start when this much would be freed.",
    ))
    .no_effect("space is returned without defragmenting"),
    feature(integer("max-learners", "1", "Most learners in the cluster at a time.")),
    feature(duration("compaction-sleep-interval", "10ms", "Pause between two steps of a compaction."))
        .no_effect(OWN_STEPS),
    feature(duration("downgrade-check-time", "5s", "How often to look whether a downgrade was asked for."))
        .no_effect("a downgrade is part of the replicated state"),
    feature(text(
        "backup-url",
        "",
        "Archive that the leader copies the cluster into: file:///DIRECTORY or s3://BUCKET/PREFIX.",
    )),
    feature(duration("backup-interval", "10s", "Time between two copies of changes into the archive.")),
    feature(duration("backup-base-interval", "24h", "Time between two copies of the whole state.")),
    feature(duration(
        "backup-keep",
        "0s",
        "How long states in the archive can be restored; 0 means forever.",
    )),
    feature(text(
        "backup-encryption-key-file",
        "",
        "File with the key of the archive: 64 hexadecimal digits.",
    )),
    feature(count("snapshot-catchup-entries", "5000", "Log entries kept for slow followers.")),
    switch("force-new-cluster", "false", "Start a one-member cluster from this member's data.")
        .section(Section::Unsafe),
    switch("unsafe-no-fsync", "false", "Do not wait for the disk: a crash may lose acknowledged writes.")
        .section(Section::Unsafe)
        .no_effect("an acknowledged write is always on the disk"),
];
