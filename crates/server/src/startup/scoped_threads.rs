//! Runs the tasks of a restart on all cores. The threads live for as long as the tasks; serving clients has its own.

use std::num::NonZero;
use std::thread::Builder;

use member::{Parallel, Task};
use parking_lot::Mutex;

/// Threads that take the tasks one after another, the caller's among them. If the system refuses a thread, the others
/// do its work.
pub(super) struct ScopedThreads;

impl Parallel for ScopedThreads {
    fn run(&self, tasks: Vec<Task<'_>>) {
        let threads = tasks.len();
        let tasks = Mutex::new(tasks);
        let next = || tasks.lock().pop();
        let work = || {
            while let Some(task) = next() {
                task();
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                if Builder::new().name("stele-open".to_owned()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }

    fn width(&self) -> usize {
        std::thread::available_parallelism().map_or(1, NonZero::get)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_tasks_have_ended_when_it_returns() {
        let ended = AtomicUsize::new(0);
        let task = || -> Task<'_> {
            Box::new(|| {
                ended.fetch_add(1, Ordering::Relaxed);
            })
        };
        ScopedThreads.run((0..5).map(|_| task()).collect());
        assert_eq!(ended.load(Ordering::Relaxed), 5);
        ScopedThreads.run(Vec::new());
        assert!(ScopedThreads.width() > 0);
    }
}
