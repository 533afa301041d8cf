//! Copies the sources of the product that no other crate can name, once as they are and once for each defect.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// A change to a source that a test must notice.
struct Defect {
    name: &'static str,
    source: &'static str,
    /// The text that is replaced, and the defect that replaces it.
    change: (&'static str, &'static str),
}

const RAFT_LOOP: &str = "../../crates/server/src/raft_loop";

const DEFECTS: &[Defect] = &[
    Defect {
        name: "input_queue_looks_before_it_locks",
        source: "input_queue.rs",
        change: (
            "state.sleeping_until = Some(until);",
            "drop(state); state = self.state.lock(); state.sleeping_until = Some(until);",
        ),
    },
    Defect {
        name: "input_queue_forgets_inputs_of_the_last_iteration",
        source: "input_queue.rs",
        change: ("let may_sleep = state.inputs.is_empty() && due", "let may_sleep = due"),
    },
    Defect {
        name: "input_queue_wakes_one_flooder",
        source: "input_queue.rs",
        change: ("self.taken.notify_all();", "self.taken.notify_one();"),
    },
    Defect {
        name: "write_queue_forgets_jobs_of_the_last_write",
        source: "write_queue.rs",
        change: ("if !state.jobs.is_empty() || state.closed {", "if state.closed {"),
    },
    Defect {
        name: "write_queue_releases_before_it_reports",
        source: "write_queue.rs",
        change: (
            "let more = !self.state.lock().jobs.is_empty();",
            "let mut state = self.state.lock(); state.flusher = Flusher::None; self.changed.notify_all(); \
             let more = !state.jobs.is_empty(); drop(state);",
        ),
    },
    Defect {
        name: "write_queue_inline_flusher_leaves_silently",
        source: "write_queue.rs",
        change: ("if jobs.is_none() && state.closed {", "if false {"),
    },
    Defect {
        name: "write_queue_with_two_flushers",
        source: "write_queue.rs",
        change: ("let reserved = state.flusher == Flusher::None && state.jobs", "let reserved = state.jobs"),
    },
    Defect {
        name: "worker_queues_count_after_they_unlocked",
        source: "worker_queues.rs",
        change: (
            "let first = submitted.len() == 1;\n        drop(submitted);",
            "drop(submitted);\n        let first = queue.submitted.lock().len() == 1;",
        ),
    },
    Defect {
        name: "worker_queues_close_before_they_say_so",
        source: "worker_queues.rs",
        change: (
            "self.closed.store(true, Ordering::SeqCst);\n        for queue in &self.queues {\n            \
             queue.send_completed(&mut Vec::new());\n            queue.pending.lock().clear();\n        }",
            "for queue in &self.queues {\n            queue.send_completed(&mut Vec::new());\n            \
             queue.pending.lock().clear();\n        }\n        self.closed.store(true, Ordering::SeqCst);",
        ),
    },
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where to write"));
    for source in ["input_queue.rs", "worker_queues.rs", "write_queue.rs"] {
        println!("cargo::rerun-if-changed={RAFT_LOOP}/{source}");
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
    let path = Path::new(RAFT_LOOP).join(source);
    let text = fs::read_to_string(&path).expect("the product's source is there");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
    code.replace("std::sync::atomic", "shuttle::sync::atomic")
}

fn write(out: &Path, name: &str, text: &str) {
    fs::write(out.join(format!("{name}.rs")), text).expect("cargo's folder can be written");
}
