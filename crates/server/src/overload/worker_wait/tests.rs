//! What is admitted after which waits.

use super::*;

const MAX: Duration = Duration::from_millis(20);

fn admitted(worker: &WorkerWait, requests: u32) -> u32 {
    (0..requests).map(|_| u32::from(worker.admit(MAX).is_ok())).sum()
}

/// Lets a worker be late until it admits the least share.
fn refuse(worker: &WorkerWait) {
    for _ in 0..200 {
        worker.sample(MAX * 10);
        let _ = worker.admit(MAX);
    }
}

fn refusing() -> WorkerWait {
    let worker = WorkerWait::new();
    refuse(&worker);
    worker
}

#[test]
fn all_are_admitted_until_the_wait_is_too_long() {
    let worker = WorkerWait::new();
    assert_eq!(admitted(&worker, 1_000), 1_000);
    (0..LASTING).for_each(|_| worker.sample(MAX));
    assert_eq!(admitted(&worker, 1_000), 1_000, "as long as is allowed");
    (0..LASTING).for_each(|_| worker.sample(MAX * 2));
    assert_eq!(admitted(&worker, 1_600), 1_500);
}

#[test]
fn a_stall_is_no_overload() {
    let worker = WorkerWait::new();
    worker.sample(MAX * 100);
    worker.sample(MAX * 2);
    assert_eq!(admitted(&worker, 1_000), 1_000);
    worker.sample(MAX);
    assert_eq!(admitted(&worker, 1_000), 1_000);
}

#[test]
fn a_share_falls_to_a_least_one_and_grows_back() {
    let worker = refusing();
    worker.sample(MAX * 10);
    assert_eq!(admitted(&worker, 128), 2);
    for _ in 0..FULL_RECOVERY {
        worker.sample(Duration::ZERO);
        let _ = worker.admit(MAX);
    }
    assert_eq!(admitted(&worker, 1_000), 1_000);
}

#[test]
fn a_worker_that_is_busy_refuses_for_a_tenth_of_its_time() {
    let worker = WorkerWait::new();
    let refused = |wait| (0..10_000).filter(|_| worker.may_refuse(wait)).count();
    assert_eq!(refused(MAX), 10_000, "it has time to spare");
    refuse(&worker);
    for _ in 0..3 {
        worker.sample(MAX * 10);
        assert_eq!(10_000 - admitted(&worker, 10_000), MAX_REFUSALS);
        assert_eq!(refused(MAX), 0, "a queue that is too long comes on top of it");
        assert_eq!(refused(ANYWAY_TOO_LONG + MAX), 10_000, "it is late by any measure");
    }
    worker.sample(BUSY_WAIT / 2);
    assert_eq!(refused(MAX), 10_000, "it has time to spare again");
}

#[test]
fn idle_samples_count() {
    let worker = refusing();
    (0..u64::from(u16::MAX)).for_each(|_| worker.sample(Duration::ZERO));
    assert_eq!(admitted(&worker, 1_000), 1_000);
}

#[test]
fn a_refusal_tells_the_wait() {
    let worker = WorkerWait::new();
    let refusals = (0..100).filter_map(|_| {
        worker.sample(MAX * 3);
        worker.admit(MAX).err()
    });
    let waits: Vec<Duration> = refusals.collect();
    assert!(!waits.is_empty() && waits.iter().all(|wait| *wait == MAX * 3));
}

#[test]
fn a_worker_that_is_kept_busy_is_late() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let longest = Arc::<LongestWorkerWait>::default();
        measure_own_worker(longest.clone());
        tokio::task::yield_now().await;
        std::thread::sleep(SAMPLE_TIME * 3);
        while longest.take() < SAMPLE_TIME {
            tokio::task::yield_now().await;
        }
    });
    assert!(OWN.with(|own| own.waits.get()[0]) >= SAMPLE_TIME);
}
