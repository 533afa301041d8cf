//! The gate: every rule of this repository that a machine can check, in the order of what fails cheapest.
//!
//! A step is a name, a sentence on what it proves, a function, and what to do when it fails. The first
//! failure ends the run. Nothing that a change must pass lives outside this list.

use std::process::Command;
use std::time::Instant;

use crate::command::{self, cargo};
use crate::{Outcome, arrows, codegen, licences, outside, processes, tidy};

struct Step {
    name: &'static str,
    proves: &'static str,
    run: fn() -> Outcome,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        proves: "the code is formatted: Rust by rustfmt.toml, Go by gofmt",
        run: fmt,
        remedy: "run `cargo fmt --all`; for fuzz and the packages of tests the same with their `--manifest-path`",
    },
    Step {
        name: "tidy",
        proves: "files follow the rules of STYLE.md that are about text",
        run: tidy::run,
        remedy: "each line above names the file, the line and the rule",
    },
    Step {
        name: "codegen",
        proves: "the committed wire types are those of proto/",
        run: || codegen::run(true),
        remedy: "run `cargo xtask codegen` and commit what it wrote",
    },
    Step {
        name: "arrows",
        proves: "crates and guarded libraries are used only along the arrows of the design; files import in no cycle",
        run: arrows::run,
        remedy: "move the code to where it may know this, or argue for an arrow in xtask/src/arrows/table.rs; for a \
                 cycle, move what both files need into a file that imports neither",
    },
    Step {
        name: "licences",
        proves: "every dependency has an allowed licence and comes from crates.io",
        run: licences::run,
        remedy: "choose another crate, or allow the licence in deny.toml with its reason",
    },
    Step {
        name: "clippy",
        proves: "no warnings; no clocks, entropy, threads or hash order in the deterministic crates",
        run: clippy,
        remedy: "clippy.toml names the replacement of each banned call",
    },
    Step {
        name: "docs",
        proves: "the documentation builds and its links resolve",
        run: docs,
        remedy: "repair the links that rustdoc names",
    },
    Step {
        name: "test",
        proves: "the tests of every crate pass",
        run: || command::run(&mut cargo(&["test", "--workspace"])),
        remedy: "repeat the failing test alone with `cargo test -p CRATE NAME`",
    },
    Step {
        name: "simulation",
        proves: "hundreds of simulated clusters keep every promise, those of seeds that once found something too",
        run: || command::run(&mut cargo(&["test", "--profile", "sim", "-p", "sim"])),
        remedy: "repeat the failing seed as docs/internals/simulation.md says",
    },
    Step {
        name: "parallel",
        proves: "what runs in parallel holds in thousands of orders of its threads, and defects in it are noticed",
        run: outside::parallel,
        remedy: "docs/internals/parallel.md says how to repeat a failing order",
    },
    Step {
        name: "processes",
        proves: "the release binary serves real clients: Go's and Rust's, beside a real etcd",
        run: processes::run,
        remedy: "repeat it with `cargo xtask ci processes`",
    },
];

const LONG_STEPS: &[Step] = &[
    Step {
        name: "deny",
        proves: "no dependency has an advisory that deny.toml does not explain",
        run: deny,
        remedy: "update the crate, or explain the advisory in deny.toml",
    },
    Step {
        name: "defects",
        proves: "each deliberate defect of the simulator is noticed within 60 seeds",
        run: || command::run(&mut cargo(&["run", "--profile", "sim", "-p", "sim", "--", "--defects", "60"])),
        remedy: "docs/internals/simulation.md says what noticed it before; find out why that does not see it any more",
    },
    Step {
        name: "fuzz",
        proves: "a minute of each fuzz target finds nothing",
        run: outside::fuzz,
        remedy: "docs/internals/fuzzing.md says how to repeat the input that libFuzzer wrote down",
    },
];

/// Runs the steps named in `only` (all when it is empty), and with `long` those that a change need not wait
/// for.
pub(crate) fn run(only: &[String], long: bool) -> Outcome {
    let all = || STEPS.iter().chain(LONG_STEPS.iter());
    if let Some(unknown) = only.iter().find(|name| all().all(|step| step.name != **name)) {
        let names = all().map(|step| step.name).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no step {unknown:?}; there are: {names}"));
    }
    let asked = |step: &&Step| only.iter().any(|name| name == step.name);
    let steps: Vec<&Step> = match (only.is_empty(), long) {
        (true, true) => all().collect(),
        (true, false) => STEPS.iter().collect(),
        (false, _) => all().filter(asked).collect(),
    };
    let begin = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        run_step(step, number + 1, steps.len())?;
    }
    eprintln!("gate passed: {} steps in {:.1} s", steps.len(), begin.elapsed().as_secs_f64());
    Ok(())
}

fn run_step(step: &Step, number: usize, count: usize) -> Outcome {
    eprintln!("[{number}/{count}] {}: {}", step.name, step.proves);
    let begin = Instant::now();
    let outcome = (step.run)();
    let seconds = begin.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => {
            eprintln!("[{number}/{count}] {}: ok in {seconds:.1} s", step.name);
            Ok(())
        }
        Err(reason) => Err(format!(
            "step {} failed after {seconds:.1} s: {reason}\nwhat to do: {}",
            step.name, step.remedy
        )),
    }
}

fn fmt() -> Outcome {
    command::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in outside::MANIFESTS.into_iter().chain([processes::RUST_TESTS]) {
        command::run(&mut cargo(&["fmt", "--check", "--manifest-path", manifest]))?;
    }
    if !command::has_go("the form of Go code")? {
        return Ok(());
    }
    let unformatted = command::output(Command::new("gofmt").args(["-l", "tests"]))?;
    let files = unformatted.split_whitespace().collect::<Vec<_>>().join(" ");
    if files.is_empty() { Ok(()) } else { Err(format!("run `gofmt -w {files}`")) }
}

fn clippy() -> Outcome {
    command::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Outcome {
    let mut command = cargo(&["doc", "--no-deps", "--workspace", "--document-private-items"]);
    command::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn deny() -> Outcome {
    if !command::is_installed("cargo-deny") {
        return Err("cargo-deny is not installed: `cargo install cargo-deny --locked`".to_owned());
    }
    command::run(&mut cargo(&["deny", "--all-features", "check"]))
}
