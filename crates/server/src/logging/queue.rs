//! The lines that wait for one output. Who logs never waits for an output: a line that finds no room is dropped and
//! counted, and the thread that writes says so as soon as the output takes lines again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tracing::Level;

/// Bytes of lines that may wait for one output: some 5,000 lines, seconds of a busy member's log.
pub(super) const MAX_QUEUED_BYTES: usize = 1 << 20;

/// A line for an output.
#[derive(Clone, Debug)]
pub(super) struct QueuedLine {
    /// Its severity.
    pub(super) level: Level,
    /// Where in the source it was logged.
    pub(super) caller: Arc<str>,
    /// With its line break.
    pub(super) text: Arc<str>,
}

/// What the writing thread takes at once.
#[derive(Debug, Default)]
pub(super) struct TakenLines {
    /// Lines, in order.
    pub(super) lines: VecDeque<QueuedLine>,
    /// Lines that found no room behind them.
    pub(super) dropped: u64,
    /// Whether files are to be opened again before anything is written.
    pub(super) reopen: bool,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<QueuedLine>,
    bytes: usize,
    dropped: u64,
    reopen: bool,
    /// What was taken is not written yet.
    is_writing: bool,
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.dropped == 0 && !self.reopen
    }
}

/// The queue of one output.
#[derive(Default)]
pub(super) struct LineQueue {
    state: Mutex<QueueState>,
    filled: Condvar,
    written: Condvar,
}

impl LineQueue {
    /// Queues a line. Returns whether there was room.
    pub(super) fn push(&self, line: QueuedLine) -> bool {
        let mut state = self.state.lock();
        let bytes = state.bytes + line.text.len();
        if bytes > MAX_QUEUED_BYTES {
            state.dropped += 1;
            return false;
        }
        state.bytes = bytes;
        state.lines.push_back(line);
        self.filled.notify_one();
        true
    }

    /// Has the files of the output opened again.
    pub(super) fn reopen(&self) {
        self.state.lock().reopen = true;
        self.filled.notify_one();
    }

    /// Waits for lines and takes all of them; what was taken before counts as written.
    pub(super) fn take(&self) -> TakenLines {
        let mut state = self.state.lock();
        state.is_writing = false;
        self.written.notify_all();
        while state.is_idle() {
            self.filled.wait(&mut state);
        }
        state.is_writing = true;
        state.bytes = 0;
        // Who logs waits for this lock, so nothing is copied under it.
        let lines = std::mem::take(&mut state.lines);
        let (dropped, reopen) = (std::mem::take(&mut state.dropped), std::mem::take(&mut state.reopen));
        TakenLines { lines, dropped, reopen }
    }

    /// Waits until all lines are written, at most until `deadline`. Returns whether they are.
    pub(super) fn flush(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.is_idle() || state.is_writing {
            if self.written.wait_until(&mut state, deadline).timed_out() {
                return state.is_idle() && !state.is_writing;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    //! Room, order, and what is reported about lines without room.
    use super::*;

    fn line(bytes: usize) -> QueuedLine {
        QueuedLine { level: Level::INFO, caller: "".into(), text: "x".repeat(bytes).into() }
    }

    #[test]
    fn a_line_without_room_is_dropped_and_counted_and_later_ones_are_taken() {
        let queue = LineQueue::default();
        assert!(queue.push(line(MAX_QUEUED_BYTES - 1)));
        assert!(!queue.push(line(2)));
        assert!(queue.push(line(1)), "there is room for a short one");
        assert!(!queue.push(line(1)));
        let taken = queue.take();
        assert_eq!((taken.lines.len(), taken.dropped), (2, 2));
        assert!(queue.push(line(7)));
        let taken = queue.take();
        assert_eq!((taken.lines.len(), taken.dropped), (1, 0), "what was reported is reported once");
    }

    #[test]
    fn a_flush_waits_for_what_was_taken() {
        let queue = LineQueue::default();
        let now = Instant::now();
        assert!(queue.flush(now), "nothing waits");
        queue.push(line(1));
        assert!(!queue.flush(now), "a line waits");
        queue.take();
        assert!(!queue.flush(now), "it is being written");
        std::thread::scope(|scope| {
            scope.spawn(|| queue.take());
            assert!(
                queue.flush(now + std::time::Duration::from_secs(60)),
                "a thread that takes again has written"
            );
            queue.reopen();
        });
    }
}
