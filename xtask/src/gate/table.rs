//! The table of steps. Nothing that a change must pass lives outside of it.

use std::process::Command;

use super::{checks, licences, outside, processes, releases};
use crate::command::Outcome;
use crate::{arrows, codegen, tidy};

/// One step of the gate.
pub(super) struct Step {
    pub(super) name: &'static str,
    /// What is known once it has passed.
    pub(super) proves: &'static str,
    pub(super) run: fn() -> Outcome,
    /// What it compiles in a target folder or a profile of its own, which can be done while earlier steps run.
    pub(super) builds: fn() -> Result<Vec<Command>, String>,
    /// What to do when it fails.
    pub(super) remedy: &'static str,
}

/// What a change must pass, in the order of what fails cheapest.
pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        proves: "the code is formatted: Rust by rustfmt.toml, Go by gofmt",
        run: checks::fmt,
        builds: nothing,
        remedy: "run `cargo fmt --all`; for fuzz and the packages of tests the same with their `--manifest-path`",
    },
    Step {
        name: "tidy",
        proves: "files follow the rules of STYLE.md that are about text",
        run: tidy::run,
        builds: nothing,
        remedy: "each line above names the file, the line and the rule",
    },
    Step {
        name: "codegen",
        proves: "the committed wire types are those of proto/",
        run: || codegen::run(true),
        builds: nothing,
        remedy: "run `cargo xtask codegen` and commit what it wrote",
    },
    Step {
        name: "arrows",
        proves: "crates and guarded libraries are used only along the arrows of the design; files import in no cycle",
        run: arrows::run,
        builds: nothing,
        remedy: "move the code to where it may know this, or argue for an arrow in xtask/src/arrows/table.rs; for a \
                 cycle, move what both files need into a file that imports neither",
    },
    Step {
        name: "licences",
        proves: "every dependency has an allowed licence and comes from crates.io",
        run: licences::run,
        builds: nothing,
        remedy: "choose another crate, or allow the licence in deny.toml with its reason",
    },
    Step {
        name: "clippy",
        proves: "no warnings; no clocks, entropy, threads or hash order in the deterministic crates",
        run: checks::clippy,
        builds: nothing,
        remedy: "clippy.toml names the replacement of each banned call",
    },
    Step {
        name: "docs",
        proves: "the documentation builds and its links resolve",
        run: checks::docs,
        builds: nothing,
        remedy: "repair the links that rustdoc names",
    },
    Step {
        name: "test",
        proves: "the tests of every crate pass, but for those of the next step",
        run: checks::test,
        builds: nothing,
        remedy: "repeat the failing test alone with `cargo test -p CRATE NAME`",
    },
    Step {
        name: "simulation",
        proves: "more than a hundred simulated clusters keep every promise, those of seeds that once found something \
                 too; a member recovers from power loss at any point",
        run: checks::simulation,
        builds: checks::simulation_builds,
        remedy: "repeat the failing seed as docs/internals/simulation.md says",
    },
    Step {
        name: "parallel",
        proves: "what runs in parallel holds in thousands of orders of its threads, and defects in it are noticed",
        run: outside::parallel,
        builds: outside::parallel_builds,
        remedy: "docs/internals/parallel.md says how to repeat a failing order",
    },
    Step {
        name: "processes",
        proves: "the binary serves real clients: Go's and Rust's, beside a real etcd",
        run: processes::run,
        builds: processes::builds,
        remedy: "repeat it with `cargo xtask ci processes`",
    },
];

/// What a change need not wait for.
pub(super) const LONG_STEPS: &[Step] = &[
    Step {
        name: "deny",
        proves: "no dependency has an advisory that deny.toml does not explain",
        run: checks::deny,
        builds: nothing,
        remedy: "update the crate, or explain the advisory in deny.toml",
    },
    Step {
        name: "defects",
        proves: "each deliberate defect of the simulator is noticed within 60 seeds",
        run: checks::defects,
        builds: nothing,
        remedy: "docs/internals/simulation.md says what noticed it before; find out why that does not see it any more",
    },
    Step {
        name: "languages",
        proves: "clients in Python (also the package etcd3, with a list of addresses), Node and Java are served, with \
                 TLS, certificates and tokens too",
        run: processes::languages,
        builds: nothing,
        remedy: "run the program that failed alone: `go test ./interop -v -languages python`, in tests/go",
    },
    Step {
        name: "alerts",
        proves: "etcd's alert rules fire in the clusters in which they should, and in no others",
        run: processes::alerts,
        builds: nothing,
        remedy: "run it alone on a quiet machine: `go test ./metrics -v -run Alerts -alerts`, in tests/go",
    },
    Step {
        name: "releases",
        proves: "clusters of this release and older ones, built from their commits, lose no write while they are \
                 mixed; etcd 3.6 goes on with what a member exports",
        run: releases::run,
        builds: nothing,
        remedy: "repeat it with `cargo xtask ci releases`; the binaries stay in target/releases",
    },
    Step {
        name: "slow",
        proves: "a cluster is copied over a slow line, and from one that outruns the copy; `check perf` and `check \
                 datascale` end as etcdctl's; the scrub repairs what no client reads",
        run: processes::slow,
        builds: nothing,
        remedy: "run the package that failed alone, in tests/go: tests/README.md has its command",
    },
    Step {
        name: "fuzz",
        proves: "a minute of each fuzz target finds nothing",
        run: outside::fuzz,
        builds: nothing,
        remedy: "docs/internals/fuzzing.md says how to repeat the input that libFuzzer wrote down",
    },
];

fn nothing() -> Result<Vec<Command>, String> {
    Ok(Vec::new())
}
