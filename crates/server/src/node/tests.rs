//! Long lists and their turns.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};

use super::*;

/// One thread for what blocks: what was given to it first has ended when something given later has.
fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(test);
}

/// Lets a future come as far as it can now, and drops it. Returns whether it has to wait.
fn waits(future: impl Future) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn a_long_list_is_not_begun_before_its_turn() {
    on_one_thread(async {
        let lists = LargeRanges::at_once(2);
        let turns = lists.turns.clone().try_acquire_many_owned(2).unwrap();
        let begun = Arc::new(AtomicBool::new(false));
        let early = begun.clone();
        assert!(waits(lists.begin(move || early.store(true, Ordering::SeqCst))));
        drop(turns);
        assert_eq!(lists.begin(|| 7).await.await.unwrap(), 7);
        assert!(!begun.load(Ordering::SeqCst), "a list was made while all turns were taken");
        assert_eq!(lists.turns.available_permits(), 2);
    });
}

#[test]
fn a_list_whose_client_has_gone_counts_until_it_is_made() {
    on_one_thread(async {
        let lists = LargeRanges::at_once(1);
        let (finish, finished) = channel::<()>();
        drop(lists.begin(move || finished.recv()).await);
        assert_eq!(lists.turns.available_permits(), 0);
        finish.send(()).unwrap();
        assert_eq!(lists.begin(|| 7).await.await.unwrap(), 7);
    });
}

#[test]
fn a_list_that_panics_gives_its_turn_back() {
    on_one_thread(async {
        let lists = LargeRanges::at_once(1);
        assert!(lists.begin(|| panic!("a test's")).await.await.is_err());
        assert_eq!(lists.begin(|| 7).await.await.unwrap(), 7);
    });
}

#[test]
fn there_are_turns_for_every_core() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(LargeRanges::default().turns.available_permits(), 2 * cores);
}
