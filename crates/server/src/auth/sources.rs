//! Where clients come from for whom a password is hashed or a signature checked, and how many of them may wait.
//!
//! Both are slow, bcrypt on purpose, so a flood of one client must not keep the others from them. Each source has one
//! call served at a time, and each network a few; a source may have a bounded number waiting, and a network a bounded
//! number of sources. So a flood from all addresses of a network waits behind itself, and leaves places for others:
//!
//! ```text
//! source A: a1 running, a2 a3 ... a1024 wait, a1025 refused
//! source B: b1 waits                                         next: b1, then a2
//! ```
//!
//! While calls of many sources wait, each source may have fewer: with the share of one source of `n` bounded by
//! [`MAX_WAITING`]` / n`, all together are at most some 32,000, however many addresses a flood comes from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls of one source that may wait while few sources have any: as many as the connections of a large program, which
/// all authenticate when it starts.
pub(crate) const MAX_WAITING_PER_SOURCE: usize = 1_024;

/// Calls of which each source may have its share waiting, and one in any case.
pub(crate) const MAX_WAITING: usize = 4_096;

/// Sources that may have calls waiting.
pub(crate) const MAX_SOURCES: usize = 4_096;

/// Sources of one network that may have calls waiting. They must not take the places of all sources: a single host may
/// have 65,536 networks of 64 bits. A network of IPv4 has fewer addresses than this.
pub(crate) const MAX_SOURCES_PER_NETWORK: usize = MAX_SOURCES / 4;

/// Calls of one network that are served, or wait among those of all others: more than one, because a whole cluster of
/// clients may be one network.
pub(crate) const MAX_SERVED_PER_NETWORK: usize = 16;

/// Bits of the addresses of a network: what a provider hands out as a whole.
const NETWORK_BITS_V4: u32 = 24;
const NETWORK_BITS_V6: u32 = 48;

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

    /// The network that it is a part of.
    fn network(self) -> Source {
        Source(self.0.map(|address| match address {
            IpAddr::V4(v4) => {
                IpAddr::V4((u32::from(v4) & (u32::MAX << (u32::BITS - NETWORK_BITS_V4))).into())
            }
            IpAddr::V6(v6) => {
                IpAddr::V6((u128::from(v6) & (u128::MAX << (u128::BITS - NETWORK_BITS_V6))).into())
            }
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

/// The sources with calls that wait or run, and their networks.
#[derive(Default)]
pub(super) struct Sources {
    waiting: Mutex<WaitingCalls>,
}

#[derive(Default)]
struct WaitingCalls {
    by_source: CallCounts,
    by_network: CallCounts,
    /// How many of the sources are of each network.
    sources: BTreeMap<Source, usize>,
}

/// How many calls each of some sources or networks has, and what admits them one after the other.
#[derive(Default)]
struct CallCounts(BTreeMap<Source, (usize, Arc<Semaphore>)>);

impl CallCounts {
    fn count(&self, source: Source) -> usize {
        self.0.get(&source).map_or(0, |(count, _)| *count)
    }

    /// Counts a call; `at_a_time` calls of one source are admitted at once.
    fn enter(&mut self, source: Source, at_a_time: usize) -> Arc<Semaphore> {
        let (count, admits) =
            self.0.entry(source).or_insert_with(|| (0, Arc::new(Semaphore::new(at_a_time))));
        *count += 1;
        admits.clone()
    }

    /// A call counts no longer; whether it was the last of its source.
    fn leave(&mut self, source: Source) -> bool {
        let Some((count, _)) = self.0.get_mut(&source) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.0.remove(&source);
        }
        is_last
    }
}

/// A call that waits, or is served. It counts until this is dropped.
pub(super) struct WaitingCall {
    sources: Arc<Sources>,
    source: Source,
    /// Of its source, and of its network.
    admits: [Arc<Semaphore>; 2],
}

impl Sources {
    /// Counts a call, unless too many of its source wait, or calls of too many sources.
    pub(super) fn enter(self: &Arc<Sources>, source: Source) -> Option<WaitingCall> {
        let mut waiting = self.waiting.lock();
        let count = waiting.by_source.count(source);
        let sources = waiting.by_source.0.len() + usize::from(count == 0);
        let share = (MAX_WAITING / sources).clamp(1, MAX_WAITING_PER_SOURCE);
        if sources > MAX_SOURCES || count >= share {
            return None;
        }
        if count == 0 {
            let of_network = waiting.sources.entry(source.network()).or_default();
            if *of_network >= MAX_SOURCES_PER_NETWORK {
                return None;
            }
            *of_network += 1;
        }
        let of_source = waiting.by_source.enter(source, 1);
        let of_network = waiting.by_network.enter(source.network(), MAX_SERVED_PER_NETWORK);
        Some(WaitingCall { sources: self.clone(), source, admits: [of_source, of_network] })
    }
}

impl WaitingCall {
    /// Waits until this call is the next one of its source and its network, first come first served.
    pub(super) async fn served(&self) -> Option<[OwnedSemaphorePermit; 2]> {
        let [of_source, of_network] = self.admits.clone();
        // The semaphores are never closed.
        let of_source = of_source.acquire_owned().await.ok()?;
        Some([of_source, of_network.acquire_owned().await.ok()?])
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        let mut waiting = self.sources.waiting.lock();
        let network = self.source.network();
        if waiting.by_source.leave(self.source)
            && let Some(sources) = waiting.sources.get_mut(&network)
        {
            *sources -= 1;
        }
        if waiting.by_network.leave(network) {
            waiting.sources.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Waiting calls, which of them are served, and what counts as one source.
    use futures_util::FutureExt;

    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().expect("an address"))
    }

    /// All calls that a source may have waiting.
    fn flood(sources: &Arc<Sources>, source: Source) -> Vec<WaitingCall> {
        std::iter::from_fn(|| sources.enter(source)).collect()
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
        let calls = flood(&sources, source("10.0.0.1"));
        assert_eq!(calls.len(), MAX_WAITING_PER_SOURCE);
        assert!(sources.enter(source("10.0.0.2")).is_some());
        drop(calls);
        assert!(sources.enter(source("10.0.0.1")).is_some());
        let waiting = sources.waiting.lock();
        assert!(waiting.by_source.0.is_empty() && waiting.by_network.0.is_empty(), "they are forgotten");
        assert!(waiting.sources.is_empty());
    }

    #[test]
    fn many_sources_have_fewer_calls_each_and_each_new_one_has_one() {
        let sources = Arc::<Sources>::default();
        let all: Vec<Source> =
            (0..MAX_SOURCES as u32).map(|n| Source::of(IpAddr::V4((10 << 24 | n << 8).into()))).collect();
        let calls: Vec<_> = all.iter().map(|source| flood(&sources, *source)).collect();
        assert!(calls.iter().all(|calls| !calls.is_empty()), "each has one");
        let total: usize = calls.iter().map(Vec::len).sum();
        assert!(total <= 8 * MAX_WAITING, "{total} calls wait");
        assert!(sources.enter(source("192.0.2.1")).is_none(), "one source too many");
    }

    #[test]
    fn one_call_of_a_source_is_served_at_a_time() {
        let sources = Arc::<Sources>::default();
        let [first, second, other] = ["10.0.0.1", "10.0.0.1", "10.0.0.2"]
            .map(|address| sources.enter(source(address)).expect("it may wait"));
        let served = first.served().now_or_never().expect("it is the first");
        assert!(second.served().now_or_never().is_none());
        assert!(other.served().now_or_never().is_some(), "another source does not wait for it");
        drop(served);
        assert!(second.served().now_or_never().is_some());
    }

    #[test]
    fn a_network_leaves_places_for_others() {
        let sources = Arc::<Sources>::default();
        let of_network = |n: u32| source(&format!("2001:db8:1:{n:x}::1"));
        let calls: Vec<WaitingCall> =
            (0..2 * MAX_SOURCES as u32).filter_map(|n| sources.enter(of_network(n))).collect();
        assert_eq!(calls.len(), MAX_SOURCES_PER_NETWORK);
        assert!(
            sources.enter(source("2001:db8:2::1")).is_some() && sources.enter(source("10.0.0.1")).is_some()
        );
        drop(calls);
        assert!(sources.enter(of_network(0)).is_some());
    }

    #[test]
    fn a_network_has_a_bounded_number_of_calls_served() {
        let sources = Arc::<Sources>::default();
        let calls: Vec<WaitingCall> =
            (0..100).filter_map(|n| sources.enter(source(&format!("2001:db8:1:{n:x}::1")))).collect();
        let served: Vec<_> = calls.iter().filter_map(|call| call.served().now_or_never()).collect();
        assert_eq!(served.len(), MAX_SERVED_PER_NETWORK);
        let other = sources.enter(source("2001:db8:2::1")).expect("it may wait");
        assert!(other.served().now_or_never().is_some(), "another network waits for none of them");
        drop(served);
        assert!(calls.last().is_some_and(|call| call.served().now_or_never().is_some()));
    }
}
