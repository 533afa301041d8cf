//! Commands on keys, transactions, watches and leases.

use cli::{BLANK, Command, Flag, Group, int, switch, text_flag as text};

const CONSISTENCY: &[&str] = &["l", "s"];

/// `--interactive`, `-i`.
const fn interactive(usage: &'static str) -> Flag {
    Flag { short: Some('i'), ..switch("interactive", usage) }
}

pub(super) const GET: Command = Command {
    usage: "get [options] <key> [range_end]",
    short: "Gets the key or a range of keys",
    group: Some(Group::KeyValue),
    flags: &[
        Flag { choices: CONSISTENCY, ..text("consistency", "l", "Linearizable(l) or Serializable(s)") },
        switch("count-only", "Get only the count"),
        switch("from-key", "Get keys that are greater than or equal to the given key using byte compare"),
        switch("keys-only", "Get only the keys"),
        int("limit", "Maximum number of results"),
        int("max-create-rev", "Maximum create revision"),
        int("max-mod-rev", "Maximum modification revision"),
        int("min-create-rev", "Minimum create revision"),
        int("min-mod-rev", "Minimum modification revision"),
        Flag {
            choices: &["ASCEND", "DESCEND"],
            ..text("order", "", "Order of results; ASCEND or DESCEND (ASCEND by default)")
        },
        switch("prefix", "Get keys with matching prefix"),
        switch("print-value-only", "Only write values when using the \"simple\" output format"),
        int("rev", "Specify the kv revision"),
        Flag {
            choices: &["CREATE", "KEY", "MODIFY", "VALUE", "VERSION"],
            ..text("sort-by", "", "Sort target; CREATE, KEY, MODIFY, VALUE, or VERSION")
        },
        switch("stream", "Use the RangeStream RPC"),
    ],
    own_flags: &[switch("watch", "After that, print what changes, from the next revision on")],
    ..BLANK
};

pub(super) const PUT: Command = Command {
    usage: "put [options] <key> <value> (<value> can also be given from stdin)",
    short: "Puts the given key into the store",
    long: "
Puts the given key into the store.

When <value> begins with '-', <value> is interpreted as a flag.
Insert '--' for workaround:

$ put <key> -- <value>
$ put -- <key> <value>

If <value> isn't given as a command line argument and '--ignore-value' is not specified,
this command tries to read the value from standard input.

If <lease> isn't given as a command line argument and '--ignore-lease' is not specified,
this command tries to read the value from standard input.

For example,
$ cat file | put <key>
will store the content of the file to <key>.
",
    group: Some(Group::KeyValue),
    flags: &[
        switch("ignore-lease", "updates the key using its current lease"),
        switch("ignore-value", "updates the key using its current value"),
        text("lease", "0", "lease ID (in hexadecimal) to attach to the key"),
        switch("prev-kv", "return the previous key-value pair before modification"),
    ],
    ..BLANK
};

pub(super) const DEL: Command = Command {
    usage: "del [options] <key> [range_end]",
    short: "Removes the specified key or range of keys [key, range_end)",
    group: Some(Group::KeyValue),
    flags: &[
        switch("from-key", "delete keys that are greater than or equal to the given key using byte compare"),
        switch("prefix", "delete keys with matching prefix"),
        switch("prev-kv", "return deleted key-value pairs"),
        switch("range", "delete range of keys"),
    ],
    ..BLANK
};

pub(super) const TXN: Command = Command {
    usage: "txn [options]",
    short: "Txn processes all the requests in one transaction",
    long:
        "Txn reads multiple etcd requests from standard input and applies them as a single atomic transaction.

A transaction consists of three components:
1) a list of conditions,
2) a list of requests to apply if all the conditions are true,
3) a list of requests to apply if any condition is false.

Example interactive stdin usage:

---
etcdctl txn -i
# compares:
mod(\"key1\") > \"0\"

# success requests (get, put, delete):
put key1 \"overwrote-key1\"

# failure requests (get, put, delete):
put key1 \"created-key1\"
put key2 \"some extra key\"
---

Refer to https://github.com/etcd-io/etcd/blob/main/etcdctl/README.md#txn-options.",
    group: Some(Group::KeyValue),
    flags: &[interactive("Input transaction in interactive mode")],
    ..BLANK
};

pub(super) const COMPACTION: Command = Command {
    usage: "compaction [options] <revision>",
    short: "Compacts the event history in etcd",
    group: Some(Group::KeyValue),
    flags: &[switch("physical", "'true' to wait for compaction to physically remove all old revisions")],
    ..BLANK
};

pub(super) const WATCH: Command = Command {
    usage: "watch [options] [key or prefix] [range_end] [--] [exec-command arg1 arg2 ...]",
    short: "Watches events stream on keys or prefixes",
    group: Some(Group::KeyValue),
    flags: &[
        interactive("Interactive mode"),
        switch("prefix", "Watch on a prefix if prefix is set"),
        switch("prev-kv", "get the previous key-value pair before the event happens"),
        switch("progress-notify", "get periodic watch progress notification from server"),
        int("rev", "Revision to start watching"),
    ],
    ..BLANK
};

pub(super) const LEASE: Command = Command {
    usage: "lease <subcommand>",
    short: "Lease related commands. Use `etcdctl lease --help` to see subcommands",
    long: "Lease related commands",
    group: Some(Group::KeyValue),
    children: &[
        Command { usage: "grant <ttl>", short: "Creates leases", ..BLANK },
        Command {
            usage: "keep-alive [options] <leaseID>",
            short: "Keeps leases alive (renew)",
            flags: &[switch(
                "once",
                "Resets the keep-alive time to its original value and cobrautl.Exits immediately",
            )],
            ..BLANK
        },
        Command { usage: "list", short: "List all active leases", ..BLANK },
        Command { usage: "revoke <leaseID>", short: "Revokes leases", ..BLANK },
        Command {
            usage: "timetolive <leaseID> [options]",
            short: "Get lease information",
            flags: &[switch("keys", "Get keys attached to this lease")],
            ..BLANK
        },
    ],
    ..BLANK
};

pub(super) const DIFF: Command = Command {
    usage: "diff [options] [prefix]",
    short: "Compares keys and values of two clusters, or of two revisions",
    long: "Compares keys and values of two clusters, or of two revisions of one.

Lines begin with '+' for a key that only the second has, '-' for one that only the first has, '~' for one
whose value differs. Exit code: 0 if there is no difference, 1 if there is one.

$ diff --other 10.0.0.9:2379 /registry/
$ diff --rev 1200 --other-rev 1300",
    group: Some(Group::KeyValue),
    flags: &[
        text("other", "", "endpoints of the second cluster (default: the same cluster)"),
        int("other-rev", "revision of the second (default: its latest)"),
        int("rev", "revision of the first (default: its latest)"),
        switch("keys-only", "Compare keys and revisions only, without values"),
    ],
    own: true,
    ..BLANK
};
