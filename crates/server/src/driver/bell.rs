//! Bells: how the publisher wakes the watch streams of an RPC worker, all of them with one wake-up of their thread.
//!
//! A batch of events concerns many streams. Waking each from the deciding thread would cost it a system call a stream,
//! so it notes them on the bell of their worker and rings once; the worker then wakes its own streams.
//!
//! **Pacing.** What an event costs is mostly its connection's: a write, the client's ping, a read, whatever the size.
//! So after ringing for several connections a worker rests for a while that grows with their number, and events that
//! come meanwhile leave together. A first event leaves at once, and so does every event while few connections watch.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::watch::Wake;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Connections rung for at once from which on a worker rests: with fewer, latency matters more than what is saved.
const PACED_FROM: usize = 8;

/// Rest for each connection that was rung for: some ten times what a delivery to it costs, so that deliveries take a
/// small part of a worker's time, however fast events come.
const REST_PER_CONNECTION: Duration = Duration::from_micros(300);

/// The longest rest: what an event may be late when its watchers are many and busy.
const MAX_REST: Duration = Duration::from_millis(5);

thread_local! {
    static OWN: RefCell<Option<Arc<Bell>>> = const { RefCell::new(None) };
}

/// The bell of one worker. See the module.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<Vec<Rung>>,
    ring: Notify,
}

/// A stream to be woken, and its connection.
struct Rung {
    connection: u64,
    stream: Arc<Notify>,
}

impl Bell {
    /// Gives this thread, whose runtime the caller is on, a bell of its own.
    pub(crate) fn run_own() {
        let bell = Arc::new(Bell::default());
        OWN.set(Some(bell.clone()));
        tokio::spawn(bell.run());
    }

    /// Wakes `stream`, of `connection`, by the bell of this thread; a thread without one is woken for each stream.
    pub(crate) fn wake(connection: u64, stream: &Arc<Notify>) -> Wake {
        let stream = stream.clone();
        let Some(bell) = OWN.with_borrow(Option::clone) else {
            return Arc::new(move || stream.notify_one());
        };
        Arc::new(move || bell.ring_for(Rung { connection, stream: stream.clone() }))
    }

    fn ring_for(&self, rung: Rung) {
        let mut waiting = self.rung.lock();
        waiting.push(rung);
        let first = waiting.len() == 1;
        drop(waiting);
        if first {
            self.ring.notify_one();
        }
    }

    async fn run(self: Arc<Bell>) {
        let mut rested = Instant::now();
        loop {
            self.ring.notified().await;
            if Instant::now() < rested {
                tokio::time::sleep_until(rested).await;
            }
            let rung = std::mem::take(&mut *self.rung.lock());
            rested = Instant::now() + rest(&rung);
            rung.iter().for_each(|rung| rung.stream.notify_one());
        }
    }
}

/// How long to rest after waking these.
fn rest(rung: &[Rung]) -> Duration {
    let mut connections: Vec<u64> = rung.iter().map(|rung| rung.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    match connections.len() {
        ..PACED_FROM => Duration::ZERO,
        many => MAX_REST.min(REST_PER_CONNECTION * u32::try_from(many).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    //! Streams are woken by their worker; one connection is never kept waiting, many are within the limit.
    use super::*;

    fn rung(connections: impl IntoIterator<Item = u64>) -> Vec<Rung> {
        let rung = |connection| Rung { connection, stream: Arc::default() };
        connections.into_iter().map(rung).collect()
    }

    #[test]
    fn the_rest_grows_with_the_connections_and_not_with_their_streams() {
        assert_eq!(rest(&rung([7; 100])), Duration::ZERO);
        assert_eq!(rest(&rung((0..7).chain(0..7))), Duration::ZERO);
        assert_eq!(rest(&rung((0..10).chain(0..10))), REST_PER_CONNECTION * 10);
        assert_eq!(rest(&rung(0..100_000)), MAX_REST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_event_wakes_at_once_and_the_next_ones_together() {
        Bell::run_own();
        let streams: Vec<Arc<Notify>> = (0..10).map(|_| Arc::default()).collect();
        let wakes: Vec<Wake> =
            streams.iter().zip(0..).map(|(stream, number)| Bell::wake(number, stream)).collect();
        let begin = Instant::now();
        wakes.iter().for_each(|wake| wake());
        for stream in &streams {
            stream.notified().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        wakes[0]();
        wakes[1]();
        streams[0].notified().await;
        let rested = begin.elapsed();
        assert!(rested >= REST_PER_CONNECTION * 10, "{rested:?}");
        streams[1].notified().await;
        assert_eq!(begin.elapsed(), rested);
    }
}
