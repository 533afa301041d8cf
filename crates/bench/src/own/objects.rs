//! The objects of a Kubernetes control plane: keys, values and the revisions by which they are compared.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use api::etcdserverpb as pb;
use api::methods;
use bytes::Bytes;
use ctl::CallError;
use pb::compare::CompareResult;
use pb::request_op::Request;
use pb::response_op::Response;

use crate::client::Lane;
use crate::command::{put_if, random_bytes};

/// Bytes of a key, filled up with dashes: a usual length of names with namespaces.
const KEY_BYTES: usize = 70;

/// Bytes at the beginning of a value that say which run wrote it, and when.
const STAMP_BYTES: usize = 16;

/// What values of a run tell of it.
#[derive(Clone, Copy)]
pub(super) struct RunClock {
    /// Which run it is: values of another one have other times.
    run: u64,
    begin: Instant,
}

impl RunClock {
    /// Starts the clock of a run.
    pub(super) fn start() -> Self {
        Self { run: fastrand::u64(..), begin: Instant::now() }
    }

    fn stamp(&self) -> [u8; STAMP_BYTES] {
        let time = self.begin.elapsed().as_nanos() as u64;
        (u128::from(self.run) << 64 | u128::from(time)).to_be_bytes()
    }

    /// How long ago a value was made; `None` for one of another origin.
    pub(super) fn age(&self, value: &[u8]) -> Option<Duration> {
        let stamp = u128::from_be_bytes(*value.first_chunk()?);
        let made = Duration::from_nanos(stamp as u64);
        ((stamp >> 64) as u64 == self.run).then(|| self.begin.elapsed().saturating_sub(made))
    }
}

/// Objects that are compared and put.
pub(super) struct Objects {
    keys: Vec<Bytes>,
    /// Of each key's last change, as far as it is known; 0 is that of one that does not exist.
    revisions: RefCell<Vec<i64>>,
    filling: Bytes,
    clock: RunClock,
}

/// The prefix of all objects of a kind.
pub(super) fn kind_prefix(kind: usize) -> String {
    format!("/registry/kind-{kind:03}/")
}

impl Objects {
    /// Objects with these names, whose values have so many bytes, those of the clock's stamp at least.
    pub(super) fn new(names: impl Iterator<Item = String>, val_size: usize, clock: RunClock) -> Rc<Self> {
        let keys: Vec<Bytes> = names.map(|name| format!("{name:-<KEY_BYTES$}").into()).collect();
        let filling = random_bytes(val_size.saturating_sub(STAMP_BYTES)).into();
        Rc::new(Self { revisions: RefCell::new(vec![0; keys.len()]), keys, filling, clock })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Writes an object if it is still as we know it, as Kubernetes does; if it is not, learns how it is.
    ///
    /// # Errors
    /// What the server answered, or that the object was another.
    pub(super) async fn write(&self, lane: &Lane, number: usize, lease: i64) -> Result<(), CallError> {
        let key = self.keys[number].clone();
        let known = self.revisions.borrow()[number];
        let put = pb::PutRequest { key: key.clone(), value: self.value(), lease, ..Default::default() };
        let mut txn = put_if(&key, CompareResult::Equal, known, Request::RequestPut(put));
        let get = pb::RangeRequest { key, ..Default::default() };
        txn.failure = vec![pb::RequestOp { request: Some(Request::RequestRange(get)) }];
        let answer: pb::TxnResponse = lane.ask(methods::KV_TXN, &txn).await?;
        if answer.succeeded {
            self.revisions.borrow_mut()[number] = answer.header.map_or(0, |header| header.revision);
            return Ok(());
        }
        let found = answer.responses.into_iter().find_map(|response| match response.response? {
            Response::ResponseRange(range) => Some(range.kvs.first().map_or(0, |kv| kv.mod_revision)),
            _ => None,
        });
        self.revisions.borrow_mut()[number] = found.unwrap_or(0);
        Err(CallError::status(10, "the object was changed by another client".to_owned()))
    }

    /// A value that tells when it was made.
    fn value(&self) -> Bytes {
        [&self.clock.stamp()[..], &self.filling].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_seventy_bytes_and_values_their_time() {
        let clock = RunClock::start();
        let objects = Objects::new([kind_prefix(7) + "a"].into_iter(), 1024, clock);
        assert_eq!((objects.keys[0].len(), objects.len()), (70, 1));
        assert!(objects.keys[0].starts_with(b"/registry/kind-007/a-"));
        let value = objects.value();
        assert_eq!(value.len(), 1024);
        assert!(clock.age(&value).is_some());
        let other = RunClock { run: !clock.run, ..clock };
        assert_eq!((other.age(&value), clock.age(b"short")), (None, None));
    }
}
