//! A connection whose client always has something to say lets others run, and one that could not write reads on when
//! it can.

use std::io::{IoSlice, Result, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use super::super::serve;
use super::raw::{RawClient, frame};
use super::rig::{Seen, settings};

/// Calls of the busy client; it is silent after them, so that a connection that never pauses ends the test, too.
const MAX_CALLS: usize = 2_000;

/// Calls that the connection may take before it lets others run, at most.
const MOST_AT_ONCE: usize = 16;

/// Streams, and events and ends of calls, that one poll of a connection may have.
const MOST_STEPS: usize = 256;

/// A client that has sent many calls, so many for each read of the server.
struct BusyClient {
    path: &'static str,
    text: &'static str,
    per_read: u32,
    calls: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
    takes_answers: Arc<AtomicBool>,
    is_gone: Arc<AtomicBool>,
}

impl AsyncRead for BusyClient {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.is_gone.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match call {
            // It has room for all answers.
            0 => {
                let settings = frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
                let window = frame(8, 0, 0, &[0x7f, 0, 0, 0]);
                buffer.put_slice(&[&http2::PREFACE[..], &settings, &window].concat());
            }
            1..MAX_CALLS => {
                for nth in 0..self.per_read {
                    let stream = 2 * (call as u32 * self.per_read + nth) + 1;
                    buffer.put_slice(&RawClient::call_frames(stream, self.path, self.text.as_bytes()));
                }
            }
            _ => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BusyClient {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match self.takes_answers.load(Ordering::SeqCst) {
            true => {
                self.taken.fetch_add(bytes.len(), Ordering::SeqCst);
                Poll::Ready(Ok(bytes.len()))
            }
            false => Poll::Pending,
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.poll_write(context, &bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Counts how often its task was woken.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server of a busy client, polled by hand.
struct PolledServer {
    serving: Pin<Box<dyn Future<Output = ()>>>,
    calls: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
    takes_answers: Arc<AtomicBool>,
    is_gone: Arc<AtomicBool>,
    wakes: Arc<WakeCount>,
    seen: Seen,
}

impl PolledServer {
    fn of_busy_client(text: &'static str, takes_answers: bool) -> PolledServer {
        PolledServer::of("/test/Fail", text, 1, takes_answers)
    }

    fn of(path: &'static str, text: &'static str, per_read: u32, takes_answers: bool) -> PolledServer {
        let (calls, taken, seen) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Seen::default());
        let (takes_answers, is_gone) =
            (Arc::new(AtomicBool::new(takes_answers)), Arc::<AtomicBool>::default());
        let client = BusyClient {
            path,
            text,
            per_read,
            calls: calls.clone(),
            taken: taken.clone(),
            takes_answers: takes_answers.clone(),
            is_gone: is_gone.clone(),
        };
        let service = seen.clone();
        let serving = Box::pin(async move {
            let settings = settings(Duration::ZERO, Duration::ZERO);
            settings.max_concurrent_streams.store(u32::MAX, Ordering::Relaxed);
            serve(client, service, None, &settings, CancellationToken::new()).await;
        });
        PolledServer { serving, calls, taken, takes_answers, is_gone, wakes: Arc::default(), seen }
    }

    /// Polls once: how many calls it took, and whether it asks to be polled again when others have run.
    async fn poll(&mut self) -> (usize, bool) {
        let before = (self.calls.load(Ordering::SeqCst), self.wakes.0.load(Ordering::SeqCst));
        let waker = Waker::from(self.wakes.clone());
        let polled = self.serving.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "the connection goes on");
        tokio::task::yield_now().await;
        let woken = self.wakes.0.load(Ordering::SeqCst) > before.1;
        (self.calls.load(Ordering::SeqCst) - before.0, woken)
    }
}

#[tokio::test]
async fn a_busy_connection_lets_others_run_and_goes_on() {
    let mut server = PolledServer::of_busy_client("no", true);
    for _ in 0..10 {
        let (calls, woken) = server.poll().await;
        assert!((1..=MOST_AT_ONCE).contains(&calls), "{calls} calls at once");
        assert!(woken, "it has more to do");
    }
}

#[tokio::test]
async fn calls_of_one_read_are_served_in_several_polls_and_before_more_is_read() {
    // As many as fit; the greeting is a read, too.
    const PER_READ: usize = 490;
    let mut server = PolledServer::of("/test/Wait", "", PER_READ as u32, true);
    let (mut begun, mut read) = (0, 0);
    for _ in 0..20 {
        read += server.poll().await.0;
        let waiting = server.seen.waiting.load(Ordering::SeqCst);
        assert!(waiting - begun <= MOST_STEPS, "{} calls in one poll", waiting - begun);
        begun = waiting;
        assert!((read - 1) * PER_READ <= begun + PER_READ, "{read} reads, of which {begun} calls have begun");
    }
    assert!(begun > PER_READ, "{begun} calls have begun");
    // They all end at once, which takes several polls, too.
    server.seen.release.notify_waiters();
    for _ in 0..20 {
        server.poll().await;
        let waiting = server.seen.waiting.load(Ordering::SeqCst);
        assert!(begun.saturating_sub(waiting) <= MOST_STEPS, "{} calls ended in one poll", begun - waiting);
        begun = waiting;
    }
}

#[tokio::test]
async fn a_poll_reads_no_more_than_one_buffer_holds() {
    let text = "x".repeat(16_000).leak();
    let mut server = PolledServer::of("/test/Fail", text, 4, true);
    for _ in 0..10 {
        let (reads, woken) = server.poll().await;
        assert!((1..=3).contains(&reads) && woken, "{reads} reads");
    }
}

#[tokio::test]
async fn a_poll_writes_some_of_what_the_client_takes() {
    const MOST_BYTES: usize = 1 << 20;
    let mut server = PolledServer::of("/test/Large", "", 8, true);
    let mut before = 0;
    for _ in 0..10 {
        assert!(server.poll().await.1, "it has more to do");
        let taken = server.taken.load(Ordering::SeqCst);
        assert!(taken - before <= MOST_BYTES, "{} bytes in one poll", taken - before);
        before = taken;
    }
    assert!(before > 2 * MOST_BYTES, "{before} bytes were written");
}

#[tokio::test]
async fn what_a_client_leaves_is_dropped_in_several_polls() {
    let mut server = PolledServer::of("/test/Wait", "", 490, true);
    while server.seen.waiting.load(Ordering::SeqCst) < 4 * MOST_STEPS {
        server.poll().await;
    }
    server.is_gone.store(true, Ordering::SeqCst);
    let mut waiting = server.seen.waiting.load(Ordering::SeqCst);
    while waiting > 0 {
        let context = &mut Context::from_waker(Waker::noop());
        let is_over = server.serving.as_mut().poll(context).is_ready();
        let left = server.seen.waiting.load(Ordering::SeqCst);
        assert!(waiting.saturating_sub(left) <= MOST_STEPS, "{} calls in one poll", waiting - left);
        assert!(!is_over || left == 0);
        waiting = left;
    }
}

#[tokio::test]
async fn the_worker_looks_at_its_sockets_between_two_polls_of_a_busy_connection() {
    let PolledServer { serving, calls, .. } = PolledServer::of_busy_client("no", true);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut client =
        std::net::TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (mut accepted, _) = listener.accept().await.expect("a client");
    let local = LocalSet::new();
    local.spawn_local(serving);
    let between = local.run_until(async {
        // The other connection waits for its client, as most do.
        let read = tokio::task::spawn_local(async move { accepted.read_u8().await });
        while calls.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        let before = calls.load(Ordering::SeqCst);
        client.write_all(b"x").expect("it is open");
        read.await.expect("it ends").expect("it is open");
        calls.load(Ordering::SeqCst) - before
    });
    let between = between.await;
    assert!(
        between <= 3 * MOST_AT_ONCE,
        "{between} calls of the busy connection before the other was looked at"
    );
}

#[tokio::test]
async fn a_connection_reads_on_when_what_it_had_to_send_is_taken() {
    let text = "x".repeat(16_000).leak();
    let mut server = PolledServer::of_busy_client(text, false);
    while server.poll().await.0 > 0 {
        assert!(server.calls.load(Ordering::SeqCst) < MAX_CALLS, "nothing holds the client back");
    }
    assert_eq!(server.poll().await.0, 0, "it reads nothing while the client takes nothing");
    server.takes_answers.store(true, Ordering::SeqCst);
    assert!(server.poll().await.0 > 0, "nothing but its own write tells it that there is room again");
}
