//! Independent runs on several threads. Each run is single-threaded; threads exist only here.

use std::sync::{Mutex, PoisonError, mpsc};

/// Calls `work` on each item of `next`, on `jobs` threads, and hands the results to `done` in any order.
#[expect(clippy::disallowed_methods, reason = "a run is one thread, and independent runs are many")]
pub(super) fn run<T: Send, R: Send>(
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
