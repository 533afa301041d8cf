//! What waits for the disk: the one place where "persist before send" is decided.
//!
//! Each `Ready` of consensus that has something to persist becomes one write job. Its messages fall into two kinds: those
//! that may leave at once, and those that promise something about the disk and must wait for their write, *and for all
//! writes before it*. When a write is done, consensus is told first and the messages leave after, so that its own reaction
//! never overtakes them.

use std::collections::VecDeque;

use consensus::Message;

/// One `Ready` whose write is under way.
#[derive(Debug)]
struct Held {
    number: u64,
    /// The write job it waits for; `None` when it had nothing to write but must keep its place.
    write: Option<u64>,
    messages: Vec<Message>,
    since_ns: u64,
}

/// The writes under way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    held: VecDeque<Held>,
    next_write: u64,
    /// Writes before this one are done.
    done: u64,
}

/// A `Ready` that has become durable.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) number: u64,
    pub(crate) messages: Vec<Message>,
}

impl Writes {
    /// A ready whose write was handed to the log thread.
    pub(crate) fn started(&mut self, number: u64, messages: Vec<Message>, now_ns: u64) {
        self.held.push_back(Held { number, write: Some(self.next_write), messages, since_ns: now_ns });
        self.next_write += 1;
    }

    /// A ready that had nothing to write: durable as soon as those before it are.
    pub(crate) fn nothing_to_write(&mut self, number: u64, messages: Vec<Message>, now_ns: u64) {
        self.held.push_back(Held { number, write: None, messages, since_ns: now_ns });
    }

    /// A write of the log's own (a seal), which no ready waits for.
    pub(crate) fn skipped(&mut self) {
        self.next_write += 1;
    }

    /// One more write is done; writes finish in the order they were started.
    pub(crate) fn finished(&mut self) {
        self.done += 1;
        assert!(self.done <= self.next_write, "a write finished that was never started");
    }

    /// The next ready that has become durable.
    pub(crate) fn pop_durable(&mut self) -> Option<Durable> {
        let held = self.held.pop_front_if(|held| held.write.is_none_or(|write| write < self.done))?;
        Some(Durable { number: held.number, messages: held.messages })
    }

    /// Whether a write is under way.
    pub(crate) fn pending(&self) -> bool {
        self.done < self.next_write
    }

    /// How long the oldest ready has waited for its write.
    pub(crate) fn oldest_wait_ns(&self, now_ns: u64) -> u64 {
        self.held.front().map_or(0, |held| now_ns.saturating_sub(held.since_ns))
    }
}

#[cfg(test)]
mod tests {
    //! Order is kept whatever has something to write and whatever has not.
    use super::*;

    fn durable(writes: &mut Writes) -> Vec<u64> {
        std::iter::from_fn(|| writes.pop_durable()).map(|durable| durable.number).collect()
    }

    #[test]
    fn readies_become_durable_in_order() {
        let mut writes = Writes::default();
        writes.nothing_to_write(1, Vec::new(), 0);
        assert_eq!(durable(&mut writes), [1]);
        writes.started(2, Vec::new(), 5);
        writes.nothing_to_write(3, Vec::new(), 6);
        writes.skipped();
        writes.started(4, Vec::new(), 7);
        assert!(durable(&mut writes).is_empty());
        assert_eq!(writes.oldest_wait_ns(15), 10);
        writes.finished();
        assert_eq!(durable(&mut writes), [2, 3]);
        writes.finished();
        assert!(durable(&mut writes).is_empty(), "the seal was before it");
        writes.finished();
        assert_eq!(durable(&mut writes), [4]);
        assert!(!writes.pending());
    }
}
