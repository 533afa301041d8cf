//! Limits of one client: requests a second, bytes a second, and calls that are open at the same time. All are off
//! unless a flag sets them.
//!
//! A client is a user while auth is enabled, else the common name of its certificate, else its address. Requests and
//! bytes are [buckets](bucket) of one second. Bytes are known only when they have been received or sent, so they are
//! taken then, also when the bucket is empty; a client with a debt is refused its next call until that is paid.
//!
//! ```text
//! --client-max-request-rate=2 --client-max-bytes-rate=1000           requests   bytes
//! 0.0 s   call, answered with 2,500 bytes                                    1  -1,500
//! 0.1 s   call: refused, the debt is paid in 1.4 s                           1  -1,400
//! 1.6 s   call                                                               1     100
//! 1.7 s   two calls: the second one is refused, 0.4 s                        0     200
//! ```
//!
//! The table is bounded: with [`MAX_CLIENTS`] in it, those that have no open call and owe nothing are forgotten, once a
//! second at most; a client for which there is no room shares the account of all such.

mod bucket;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::bucket::Bucket;
use crate::auth::Source;

/// Clients that have an account each: with a name of a hundred bytes each, a megabyte.
const MAX_CLIENTS: usize = 4_096;

/// Longest name with an account of its own: a client with a longer one is one of those without room.
const MAX_NAME_BYTES: usize = 256;

/// Least time between two sweeps of a full table: each looks at all clients.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// After which a client that was refused for its open calls should try again: when one ends is not known.
const OPEN_CALLS_HINT: Duration = Duration::from_secs(1);

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientName {
    /// A user, while auth is enabled.
    User(Arc<str>),
    /// The common name of a certificate.
    Certificate(Arc<str>),
    /// An address.
    Address(Source),
}

impl ClientName {
    fn len(&self) -> usize {
        match self {
            ClientName::User(name) | ClientName::Certificate(name) => name.len(),
            ClientName::Address(_) => 0,
        }
    }
}

/// The limits in force; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientLimits {
    /// Calls that begin in a second.
    pub(crate) request_rate: u64,
    /// Bytes of messages a second, received and sent.
    pub(crate) bytes_rate: u64,
    /// Calls that are open.
    pub(crate) streams: u64,
}

/// Which limit refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceededLimit {
    /// `--client-max-request-rate`.
    Requests,
    /// `--client-max-bytes-rate`.
    Bytes,
    /// `--client-max-streams`.
    Streams,
}

/// What one client has used.
pub(crate) struct ClientAccount {
    open: AtomicU64,
    buckets: Mutex<ClientBuckets>,
}

struct ClientBuckets {
    requests: Bucket,
    bytes: Bucket,
    /// As of the last call; what is charged between two calls goes by it.
    bytes_rate: u64,
}

/// A call that counts as open until this is dropped.
pub(crate) struct OpenCall(Arc<ClientAccount>);

/// The accounts of all clients.
pub(crate) struct ClientAccounts {
    table: Mutex<ClientTable>,
    /// That of the clients for which there is no room.
    others: Arc<ClientAccount>,
}

#[derive(Default)]
struct ClientTable {
    accounts: BTreeMap<ClientName, Arc<ClientAccount>>,
    swept: Option<Instant>,
}

impl Default for ClientAccounts {
    fn default() -> ClientAccounts {
        ClientAccounts { table: Mutex::default(), others: Arc::new(ClientAccount::new(Instant::now())) }
    }
}

impl ClientAccounts {
    /// Admits a call of a client, which begins at `now`.
    ///
    /// # Errors
    /// The limit that it exceeds, and after what time it may be admitted.
    pub(crate) fn admit(
        &self,
        client: ClientName,
        limits: ClientLimits,
        now: Instant,
    ) -> Result<OpenCall, (ExceededLimit, Duration)> {
        self.account(client, now).admit(limits, now)
    }

    fn account(&self, client: ClientName, now: Instant) -> Arc<ClientAccount> {
        if client.len() > MAX_NAME_BYTES {
            return self.others.clone();
        }
        let mut table = self.table.lock();
        if let Some(known) = table.accounts.get(&client) {
            return known.clone();
        }
        if table.accounts.len() >= MAX_CLIENTS {
            table.sweep(now);
        }
        if table.accounts.len() >= MAX_CLIENTS {
            return self.others.clone();
        }
        table.accounts.entry(client).or_insert_with(|| Arc::new(ClientAccount::new(now))).clone()
    }
}

impl ClientTable {
    /// Forgets clients that would be admitted as new ones would.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP_INTERVAL) {
            return;
        }
        self.swept = Some(now);
        self.accounts.retain(|_, account| !account.is_idle(now));
    }
}

impl ClientAccount {
    fn new(now: Instant) -> ClientAccount {
        let buckets = ClientBuckets { requests: Bucket::new(now), bytes: Bucket::new(now), bytes_rate: 0 };
        ClientAccount { open: AtomicU64::new(0), buckets: Mutex::new(buckets) }
    }

    fn admit(
        self: Arc<ClientAccount>,
        limits: ClientLimits,
        now: Instant,
    ) -> Result<OpenCall, (ExceededLimit, Duration)> {
        let ClientLimits { request_rate, bytes_rate, streams } = limits;
        // Counted first: of two calls at the same time only one gets the last room.
        let call = OpenCall(self);
        let open = call.0.open.fetch_add(1, Ordering::Relaxed);
        if streams > 0 && open >= streams {
            return Err((ExceededLimit::Streams, OPEN_CALLS_HINT));
        }
        let mut buckets = call.0.buckets.lock();
        buckets.bytes_rate = bytes_rate;
        if bytes_rate > 0 {
            buckets.bytes.until_out_of_debt(bytes_rate, now).map_err(|wait| (ExceededLimit::Bytes, wait))?;
        }
        if request_rate > 0 {
            buckets.requests.take_one(request_rate, now).map_err(|wait| (ExceededLimit::Requests, wait))?;
        }
        drop(buckets);
        Ok(call)
    }

    /// So many bytes of messages were received or sent.
    pub(crate) fn charge(&self, bytes: usize) {
        let mut buckets = self.buckets.lock();
        if buckets.bytes_rate > 0 {
            let rate = buckets.bytes_rate;
            buckets.bytes.take_in_debt(bytes as u64, rate);
        }
    }

    /// Whether it has no open call and full buckets.
    fn is_idle(&self, now: Instant) -> bool {
        let buckets = self.buckets.lock();
        self.open.load(Ordering::Relaxed) == 0 && buckets.requests.is_full(now) && buckets.bytes.is_full(now)
    }
}

impl OpenCall {
    /// The account of its client.
    pub(crate) fn account(&self) -> &Arc<ClientAccount> {
        &self.0
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
