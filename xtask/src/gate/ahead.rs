//! Builds for later steps, in the background of earlier ones.
//!
//! Steps leave processors idle: crates that wait for each other, linking, tests that wait. A background thread uses
//! them to build what later steps need, at a low priority, one command after another, each into a target folder or a
//! profile that no earlier step uses. Its output goes to a file. A build that fails is nothing yet: the step repeats
//! it, in the open, and fails there.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::table::Step;
use crate::binaries::target_folder;

/// Where the output of the builds goes, in the target folder.
const LOG: &str = "gate-builds.log";

/// How often a build is asked whether it has ended.
const POLL: Duration = Duration::from_millis(100);

/// The builds under way. They end when this is dropped.
pub(super) struct Ahead {
    /// The names of steps whose builds are done.
    finished: Receiver<&'static str>,
    /// Steps whose builds are not done.
    pending: Vec<&'static str>,
    state: Arc<Mutex<State>>,
}

/// What the background thread and its owner share.
#[derive(Default)]
struct State {
    build: Option<Child>,
    is_stopped: bool,
}

impl Ahead {
    /// Starts to build for `steps`, in their order. What the builds print goes to [`LOG`] in the target folder.
    pub(super) fn start(steps: &[&'static Step]) -> Result<Self, String> {
        Self::start_logging_to(steps, &target_folder()?.join(LOG))
    }

    fn start_logging_to(steps: &[&'static Step], path: &Path) -> Result<Self, String> {
        let log = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        // What keeps a build from being described keeps the step from running, and is reported there.
        let builds = steps.iter().map(|step| (step.name, (step.builds)().unwrap_or_default()));
        let builds: Vec<_> = builds.filter(|(_, commands)| !commands.is_empty()).collect();
        let pending: Vec<&'static str> = builds.iter().map(|(name, _)| *name).collect();
        if !pending.is_empty() {
            eprintln!("building ahead for {}: see {}", pending.join(", "), path.display());
        }
        let (sender, finished) = mpsc::channel();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for (name, commands) in builds {
                commands.iter().for_each(|command| build(command, &log, &shared));
                // No receiver: the gate has ended.
                let _ = sender.send(name);
            }
        });
        Ok(Self { finished, pending, state })
    }

    /// Waits until the builds of this step have ended.
    pub(super) fn wait_for(&mut self, step: &str) {
        while self.pending.contains(&step) {
            let Ok(name) = self.finished.recv() else { return };
            self.pending.retain(|pending| *pending != name);
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stopped = true;
        if let Some(build) = state.build.as_mut() {
            // It may have ended by itself.
            let _ = build.kill();
            let _ = build.wait();
        }
    }
}

/// Runs a build to its end, or until the gate ends.
fn build(command: &Command, log: &File, shared: &Mutex<State>) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut state = lock();
        if state.is_stopped {
            return;
        }
        state.build = politely(command, log);
    }
    while lock().build.as_mut().is_some_and(|build| matches!(build.try_wait(), Ok(None))) {
        thread::sleep(POLL);
    }
    lock().build = None;
}

/// Starts `command` at a low priority; `None` when it cannot be started.
fn politely(command: &Command, log: &File) -> Option<Child> {
    let mut polite = Command::new("nice");
    polite.args(["-n", "15"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        polite.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => polite.env(name, value),
            None => polite.env_remove(name),
        };
    }
    let output = || log.try_clone().map(Stdio::from);
    polite.stdin(Stdio::null()).stdout(output().ok()?).stderr(output().ok()?).spawn().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn step(name: &'static str, builds: fn() -> Result<Vec<Command>, String>) -> &'static Step {
        Box::leak(Box::new(Step { name, proves: "", run: || Ok(()), builds, remedy: "" }))
    }

    fn shell(script: &str) -> Vec<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        vec![command]
    }

    #[test]
    fn builds_are_done_when_they_were_waited_for_and_failures_are_left_to_the_step() {
        let steps = [
            step("fails", || Ok(shell("exit 1"))),
            step("none", || Ok(Vec::new())),
            step("writes", || Ok(shell(&format!("echo built > {}", written().display())))),
        ];
        let _ = fs::remove_file(written());
        let mut ahead = Ahead::start_logging_to(&steps, &temporary("log")).unwrap();
        ahead.wait_for("none");
        ahead.wait_for("writes");
        assert_eq!(fs::read_to_string(written()).unwrap(), "built\n");
        ahead.wait_for("fails");
    }

    fn written() -> PathBuf {
        temporary("written")
    }

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("stele-ahead-{name}-{}", std::process::id()))
    }

    #[test]
    fn the_end_of_the_gate_ends_the_builds() {
        let steps = [step("long", || Ok(shell("sleep 1000")))];
        let ahead = Ahead::start_logging_to(&steps, &temporary("log-of-the-end")).unwrap();
        let state = Arc::clone(&ahead.state);
        drop(ahead);
        // Whether it had begun or not, no build is left running.
        let mut state = state.lock().unwrap();
        assert!(state.build.as_mut().is_none_or(|build| build.try_wait().unwrap().is_some()));
    }
}
