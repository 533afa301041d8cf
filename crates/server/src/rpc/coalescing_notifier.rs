//! The coalescing notifier: wakes the watch streams of one RPC worker with one wake-up of its thread, and delays
//! wake-ups under load.
//!
//! A batch of events concerns many streams. Waking each one from the raft loop would cost the loop a system call per
//! stream. So it appends each stream to the notifier of the stream's worker; only the first one wakes the worker's
//! thread, where a task of the notifier then wakes all streams.
//!
//! **Delay.** An event costs mostly what its connection costs: a write, the client's ping, a read, whatever the size of
//! the event. So after it has woken streams of many connections, the notifier delays the next round by a time that
//! grows with their number, and events that arrive meanwhile share their writes. The first event is not delayed.
//! While fewer than eight connections are concerned at once, the notifier adds no delay.
//!
//! Example: ten connections watch the same key, which changes at 0, 1 and 2 ms.
//!
//! ```text
//!   0 ms   event 1: ten streams are appended, the first one wakes the task; it wakes all ten, delay 10 * 0.3 = 3 ms
//!   1 ms   event 2: ten streams are appended, the task waits
//!   2 ms   event 3: appended again; a stream that is woken twice at once runs once
//!   3 ms   the task wakes all ten: each connection sends events 2 and 3 with one write
//! ```

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::watch::Wake;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections woken at once from which on the next round is delayed: with fewer, latency matters more than the writes
/// that are saved.
const MIN_DELAYED_CONNECTIONS: usize = 8;

/// Delay for each connection that was woken: some ten times what a delivery to it costs, so that deliveries take a
/// small part of a worker's time, however fast events come.
const DELAY_PER_CONNECTION: Duration = Duration::from_micros(300);

/// Longest delay: how late an event may be when its watchers are many and busy.
const MAX_DELAY: Duration = Duration::from_millis(5);

thread_local! {
    static OWN: RefCell<Option<Arc<CoalescingNotifier>>> = const { RefCell::new(None) };
}

/// The notifier of one worker. See the module.
#[derive(Default)]
pub(super) struct CoalescingNotifier {
    pending: Mutex<Vec<PendingWake>>,
    wake_task: Notify,
}

/// A stream to be woken, and its connection.
struct PendingWake {
    connection: u64,
    stream: Arc<Notify>,
}

impl CoalescingNotifier {
    /// Gives this thread, whose runtime the caller is on, a notifier.
    pub(super) fn run_own() {
        let notifier = Arc::new(CoalescingNotifier::default());
        OWN.set(Some(notifier.clone()));
        tokio::spawn(notifier.run());
    }

    /// A function that wakes `stream`, of `connection`, through the notifier of this thread; directly if it has none.
    pub(super) fn wake(connection: u64, stream: &Arc<Notify>) -> Wake {
        let stream = stream.clone();
        let Some(notifier) = OWN.with_borrow(Option::clone) else {
            return Arc::new(move || stream.notify_one());
        };
        Arc::new(move || notifier.notify(PendingWake { connection, stream: stream.clone() }))
    }

    fn notify(&self, wake: PendingWake) {
        let mut pending = self.pending.lock();
        pending.push(wake);
        let first = pending.len() == 1;
        drop(pending);
        if first {
            self.wake_task.notify_one();
        }
    }

    async fn run(self: Arc<CoalescingNotifier>) {
        let mut delayed_until = Instant::now();
        loop {
            self.wake_task.notified().await;
            if Instant::now() < delayed_until {
                tokio::time::sleep_until(delayed_until).await;
            }
            let woken = std::mem::take(&mut *self.pending.lock());
            delayed_until = Instant::now() + delay(&woken);
            woken.iter().for_each(|wake| wake.stream.notify_one());
        }
    }
}

/// How long the round after this one is delayed.
fn delay(woken: &[PendingWake]) -> Duration {
    let mut connections: Vec<u64> = woken.iter().map(|wake| wake.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    match connections.len() {
        ..MIN_DELAYED_CONNECTIONS => Duration::ZERO,
        many => MAX_DELAY.min(DELAY_PER_CONNECTION * u32::try_from(many).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    //! Streams are woken by their worker; few connections are never delayed, many no longer than the limit.
    use super::*;

    fn woken(connections: impl IntoIterator<Item = u64>) -> Vec<PendingWake> {
        let wake = |connection| PendingWake { connection, stream: Arc::default() };
        connections.into_iter().map(wake).collect()
    }

    #[test]
    fn the_delay_grows_with_the_connections_and_not_with_their_streams() {
        assert_eq!(delay(&woken([7; 100])), Duration::ZERO);
        assert_eq!(delay(&woken((0..7).chain(0..7))), Duration::ZERO);
        assert_eq!(delay(&woken((0..10).chain(0..10))), DELAY_PER_CONNECTION * 10);
        assert_eq!(delay(&woken(0..100_000)), MAX_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_event_wakes_at_once_and_the_next_ones_together() {
        CoalescingNotifier::run_own();
        let streams: Vec<Arc<Notify>> = (0..10).map(|_| Arc::default()).collect();
        let wakes: Vec<Wake> = streams
            .iter()
            .zip(0..)
            .map(|(stream, number)| CoalescingNotifier::wake(number, stream))
            .collect();
        let begin = Instant::now();
        wakes.iter().for_each(|wake| wake());
        for stream in &streams {
            stream.notified().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        wakes[0]();
        wakes[1]();
        streams[0].notified().await;
        let delayed = begin.elapsed();
        assert!(delayed >= DELAY_PER_CONNECTION * 10, "{delayed:?}");
        streams[1].notified().await;
        assert_eq!(begin.elapsed(), delayed);
    }
}
