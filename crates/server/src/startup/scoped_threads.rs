//! Runs the tasks of a restart on all cores. The threads live for as long as the tasks; serving clients has its own.

use std::num::NonZero;

use member::{Parallel, Task};

/// A thread for each task but the last, which runs on the caller's.
pub(super) struct ScopedThreads;

impl Parallel for ScopedThreads {
    fn run(&self, mut tasks: Vec<Task<'_>>) {
        let Some(last) = tasks.pop() else { return };
        std::thread::scope(|scope| {
            for task in tasks {
                scope.spawn(task);
            }
            last();
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
