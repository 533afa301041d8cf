//! Sealing an idle log: a seal record proves that nothing was lost behind it, so that recovery need not guess.

use log::{Log, WriteJob};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    wrote_at_ns: u64,
    is_pending: bool,
}

const SEAL_AFTER_NS: u64 = log::SEAL_AFTER.as_nanos() as u64;

impl Sealing {
    /// Something was written to the log.
    pub(crate) fn wrote(&mut self, now_ns: u64) {
        self.wrote_at_ns = now_ns;
        self.is_pending = true;
    }

    /// When the log has been idle for long enough.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.is_pending.then_some(self.wrote_at_ns + SEAL_AFTER_NS)
    }

    /// Seals the log if all of it is durable; otherwise waits again.
    pub(crate) fn seal(&mut self, now_ns: u64, log: &mut Log) -> Option<WriteJob> {
        if log.durable_position() == log.position() {
            self.is_pending = false;
            if log.is_seal_due() { log.seal() } else { None }
        } else {
            self.wrote_at_ns = now_ns;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    //! When an idle log is sealed.
    use bytes::Bytes;

    use super::*;
    use crate::tests::LogAndStore;

    fn append(state: &mut LogAndStore) -> WriteJob {
        let index = state.log.last_index() + 1;
        state.log.append(None, vec![log::Entry { term: 1, index, kind: 2, payload: Bytes::new() }]).job
    }

    #[test]
    fn a_log_is_sealed_once_when_it_was_idle() {
        let mut state = LogAndStore::new(&[1]);
        let mut sealing = Sealing::default();
        assert_eq!(sealing.next_due_ns(), None);
        sealing.wrote(5);
        sealing.wrote(9);
        assert_eq!(sealing.next_due_ns(), Some(9 + SEAL_AFTER_NS));
        let job = sealing.seal(9 + SEAL_AFTER_NS, &mut state.log).expect("its end is not proved");
        state.write(job);
        assert_eq!(sealing.next_due_ns(), None, "until something is written again");
    }

    #[test]
    fn a_write_on_its_way_is_waited_for() {
        let mut state = LogAndStore::new(&[1]);
        let mut sealing = Sealing::default();
        let job = append(&mut state);
        sealing.wrote(0);
        assert!(sealing.seal(SEAL_AFTER_NS, &mut state.log).is_none());
        assert_eq!(sealing.next_due_ns(), Some(2 * SEAL_AFTER_NS));
        state.write(job);
        assert!(sealing.seal(2 * SEAL_AFTER_NS, &mut state.log).is_some());
    }

    #[test]
    fn a_log_whose_end_is_proved_gets_no_other_seal() {
        let mut state = LogAndStore::new(&[1]);
        let mut sealing = Sealing::default();
        let seal = state.log.seal().expect("an entry was appended");
        state.write(seal);
        sealing.wrote(0);
        assert!(sealing.seal(SEAL_AFTER_NS, &mut state.log).is_none());
        assert_eq!(sealing.next_due_ns(), None);
    }
}
