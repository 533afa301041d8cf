//! Where clients come from that have passwords hashed, and how many of them may wait.
//!
//! bcrypt is slow on purpose, so a flood of `Authenticate` must not keep the others from it. Each source has one
//! password hashed at a time, and a bounded number of calls that wait for that. So at most one call of a source is in
//! the queue of all sources:
//!
//! ```text
//! source A: a1 running, a2 a3 ... a1024 wait, a1025 refused
//! source B: b1 waits                                         next: b1, then a2
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls of one source that may wait for a password to be hashed: as many as the connections of a large program, which
/// all authenticate when it starts.
pub(crate) const MAX_WAITING_PER_SOURCE: usize = 1_024;

/// Sources that may have calls waiting.
pub(crate) const MAX_SOURCES: usize = 4_096;

/// Where a client comes from: its address, of IPv6 the network of 64 bits. Clients of a Unix socket are one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source(Option<IpAddr>);

impl Source {
    /// The source of an address.
    pub(crate) fn of(address: IpAddr) -> Source {
        Source(Some(match address {
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => IpAddr::V4(v4),
                None => IpAddr::V6((u128::from(v6) & (u128::MAX << 64)).into()),
            },
            v4 => v4,
        }))
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("unix"),
        }
    }
}

/// The sources with calls that wait or run.
#[derive(Default)]
pub(super) struct Sources {
    waiting: Mutex<BTreeMap<Source, (usize, Arc<Semaphore>)>>,
}

/// A call that waits, or whose password is being hashed. It counts until this is dropped.
pub(super) struct WaitingCall {
    sources: Arc<Sources>,
    source: Source,
    one_at_a_time: Arc<Semaphore>,
}

impl Sources {
    /// Counts a call, unless too many of its source wait.
    pub(super) fn enter(self: &Arc<Sources>, source: Source) -> Option<WaitingCall> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_SOURCES && !waiting.contains_key(&source) {
            return None;
        }
        let (count, one_at_a_time) =
            waiting.entry(source).or_insert_with(|| (0, Arc::new(Semaphore::new(1))));
        if *count >= MAX_WAITING_PER_SOURCE {
            return None;
        }
        *count += 1;
        Some(WaitingCall { sources: self.clone(), source, one_at_a_time: one_at_a_time.clone() })
    }
}

impl WaitingCall {
    /// Waits until no other call of the source is served, first come first served.
    pub(super) async fn served(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.one_at_a_time.clone().acquire_owned().await.ok()
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        let mut waiting = self.sources.waiting.lock();
        if let Some((count, _)) = waiting.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! WaitingCalls, and what counts as one source.
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().expect("an address"))
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
    }

    #[test]
    fn a_source_may_have_a_bounded_number_of_calls_waiting_and_others_theirs() {
        let sources = Arc::<Sources>::default();
        let flood: Vec<WaitingCall> =
            (0..MAX_WAITING_PER_SOURCE).filter_map(|_| sources.enter(source("10.0.0.1"))).collect();
        assert_eq!(flood.len(), MAX_WAITING_PER_SOURCE);
        assert!(sources.enter(source("10.0.0.1")).is_none());
        assert!(sources.enter(source("10.0.0.2")).is_some());
        drop(flood);
        assert!(sources.enter(source("10.0.0.1")).is_some());
        assert!(sources.waiting.lock().is_empty(), "sources without calls are forgotten");
    }
}
