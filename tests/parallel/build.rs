//! Copies the sources of the product that no other crate can name, once as they are and once for each defect.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A change to a source that must be noticed.
struct Defect {
    name: &'static str,
    source: &'static str,
    /// What stands there, and what shall.
    change: (&'static str, &'static str),
}

const DRIVER: &str = "../../crates/server/src/driver";

const DEFECTS: &[Defect] = &[
    Defect {
        name: "mailbox_looks_before_it_locks",
        source: "mailbox.rs",
        change: (
            "state.sleeping_until = Some(until);",
            "drop(state); state = self.state.lock(); state.sleeping_until = Some(until);",
        ),
    },
    Defect {
        name: "mailbox_forgets_what_came_meanwhile",
        source: "mailbox.rs",
        change: ("let may_sleep = state.inputs.is_empty() && due", "let may_sleep = due"),
    },
    Defect {
        name: "mailbox_wakes_one_flooder",
        source: "mailbox.rs",
        change: ("self.emptied.notify_all();", "self.emptied.notify_one();"),
    },
    Defect {
        name: "writes_forgets_what_came_meanwhile",
        source: "writes.rs",
        change: ("if !state.jobs.is_empty() || state.closed {", "if state.closed {"),
    },
    Defect {
        name: "writes_lets_go_before_it_reports",
        source: "writes.rs",
        change: (
            "let more = !self.state.lock().jobs.is_empty();",
            "let mut state = self.state.lock(); state.hand = Hand::Nobody; self.changed.notify_all(); \
             let more = !state.jobs.is_empty(); drop(state);",
        ),
    },
    Defect {
        name: "writes_volunteer_leaves_silently",
        source: "writes.rs",
        change: ("if jobs.is_none() && state.closed {", "if false {"),
    },
    Defect {
        name: "writes_with_two_hands",
        source: "writes.rs",
        change: ("let is_ours = state.hand == Hand::Nobody && state.jobs", "let is_ours = state.jobs"),
    },
    Defect {
        name: "desk_counts_after_it_unlocked",
        source: "desk.rs",
        change: (
            "let first = leaving.len() == 1;\n        drop(leaving);",
            "drop(leaving);\n        let first = desk.leaving.lock().len() == 1;",
        ),
    },
    Defect {
        name: "desk_closes_before_it_says_so",
        source: "desk.rs",
        change: (
            "self.closed.store(true, Ordering::SeqCst);\n        \
             self.desks.iter().for_each(|desk| desk.waiting.lock().clear());",
            "self.desks.iter().for_each(|desk| desk.waiting.lock().clear());\n        \
             self.closed.store(true, Ordering::SeqCst);",
        ),
    },
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    for source in ["mailbox.rs", "desk.rs", "writes.rs"] {
        println!("cargo::rerun-if-changed={DRIVER}/{source}");
        write(&out, source.trim_end_matches(".rs"), &product(source));
    }
    for defect in DEFECTS {
        let text = product(defect.source);
        let (sound, broken) = defect.change;
        assert_eq!(
            text.matches(sound).count(),
            1,
            "{} has changed: give the defect {} a form that fits it",
            defect.source,
            defect.name
        );
        write(&out, defect.name, &text.replace(sound, broken));
    }
}

/// A source without its head, which an included file cannot have, and without its tests; its atomics are shuttle's.
fn product(source: &str) -> String {
    let path = Path::new(DRIVER).join(source);
    let text = fs::read_to_string(&path).expect("the product's source is there");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
    code.replace("std::sync::atomic", "shuttle::sync::atomic")
}

fn write(out: &Path, name: &str, text: &str) {
    fs::write(out.join(format!("{name}.rs")), text).expect("cargo's folder can be written");
}
