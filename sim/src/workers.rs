//! Runs that have nothing to do with each other, on all cores. Each run is one thread; only here are there several.

use std::sync::{Mutex, PoisonError, mpsc};

/// Calls `work` on everything that `next` gives, on so many threads, and hands what comes out to `done`, in any order.
#[expect(clippy::disallowed_methods, reason = "a run is one thread, and independent runs are many")]
pub(crate) fn run<T: Send, R: Send>(
    jobs: usize,
    next: impl FnMut() -> Option<T> + Send,
    work: impl Fn(T) -> R + Sync,
    mut done: impl FnMut(R),
) {
    let next = Mutex::new(next);
    let take = || (next.lock().unwrap_or_else(PoisonError::into_inner))();
    std::thread::scope(|scope| {
        let (results, arrive) = mpsc::channel();
        for _ in 0..jobs.max(1) {
            let (results, take, work) = (results.clone(), &take, &work);
            scope.spawn(move || {
                while let Some(item) = take() {
                    if results.send(work(item)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        arrive.iter().for_each(&mut done);
    });
}
