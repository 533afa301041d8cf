//! `make-mirror`: copies a range into another cluster, then all changes as they come.

use std::time::Duration;

use api::{etcdserverpb as pb, methods, mvccpb};
use bytes::Bytes;
use pb::request_op::Request;

use crate::client::watches::{Delivery, Watches, revision_of};
use crate::client::{CallError, Client};
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open};

/// Keys of one page, as etcd's library reads them.
const PAGE_KEYS: i64 = 1000;

/// Time between two reports of how many keys were copied.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// How keys are named at the destination: the first occurrence of one text is replaced by another.
struct Naming {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Naming {
    fn apply(&self, key: &[u8]) -> Bytes {
        let at = match self.from.len() {
            0 => Some(0),
            length => key.windows(length).position(|window| window == self.from),
        };
        match at {
            Some(at) => [&key[..at], &self.to, &key[at + self.from.len()..]].concat().into(),
            None => Bytes::copy_from_slice(key),
        }
    }
}

struct Mirror {
    source: Client,
    destination: Client,
    naming: Naming,
    max_operations: usize,
    /// Keys put and deleted at the destination so far.
    copied: std::cell::Cell<i64>,
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("make-mirror takes one destination argument"));
    }
    let prefix = shell.values.text("prefix").as_bytes().to_vec();
    let mut to = shell.values.text("dest-prefix").as_bytes().to_vec();
    let bare = shell.values.switch("no-dest-prefix");
    let endpoint = shell.arg(0);
    let destination = shell.destination_options(&[endpoint]).await?;
    let destination = open(destination).await?;
    let source = shell.client().await?;
    if bare && !to.is_empty() {
        return Err(Exit::bad_args(
            "`--dest-prefix` and `--no-dest-prefix` cannot be set at the same time, choose one",
        ));
    }
    let start = (shell.values.int("rev") - 1).max(0);
    if start == 0 && !bare && to.is_empty() {
        to.clone_from(&prefix);
    }
    let max_operations = usize::try_from(shell.values.uint("max-txn-ops")).unwrap_or(usize::MAX).max(1);
    let naming = Naming { from: prefix.clone(), to };
    let mirror = Mirror { source, destination, naming, max_operations, copied: std::cell::Cell::new(0) };
    let error = tokio::select! {
        error = mirror.run(&prefix, start) => error,
        outcome = report(shell, &mirror.copied) => return outcome,
    };
    match error {
        Ok(never) => never,
        Err(error) => Err(error.into()),
    }
}

async fn report(shell: &mut Shell, copied: &std::cell::Cell<i64>) -> Outcome {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        shell.say(copied.get().to_string())?;
    }
}

impl Mirror {
    /// Copies until an error, as etcdctl does.
    async fn run(&self, prefix: &[u8], start: i64) -> Result<Outcome, CallError> {
        let (key, range_end) = match prefix {
            b"" => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
            prefix => (Bytes::copy_from_slice(prefix), api::prefix_end(prefix)),
        };
        let revision = if start > 0 { start } else { self.copy_base(key.clone(), range_end.clone()).await? };
        let mut watches = Watches::new(&self.source);
        watches.create(pb::WatchCreateRequest {
            key,
            range_end,
            start_revision: revision + 1,
            ..Default::default()
        });
        loop {
            match watches.next().await? {
                Delivery::Response(_, response) => self.copy_events(&response.events).await?,
                Delivery::Ended(Some(response)) if response.compact_revision != 0 => {
                    let text = "etcdserver: mvcc: required revision has been compacted".to_owned();
                    return Err(CallError::status(api::Code::OutOfRange.number(), text));
                }
                // etcdctl ends with an error that is none.
                Delivery::Ended(..) => return Ok(Err(Exit::new(code::ERROR, "<nil>"))),
            }
        }
    }

    /// Copies what is there now, and returns its revision.
    async fn copy_base(&self, key: Bytes, range_end: Bytes) -> Result<i64, CallError> {
        let request = pb::RangeRequest { key, range_end, limit: PAGE_KEYS, ..Default::default() };
        super::read_range(&self.source, request, async |page| {
            for kv in page {
                let put =
                    pb::PutRequest { key: self.naming.apply(&kv.key), value: kv.value, ..Default::default() };
                let _: pb::PutResponse = self.destination.write(methods::KV_PUT, &put, None).await?;
                self.copied.set(self.copied.get() + 1);
            }
            Ok(())
        })
        .await
    }

    /// Copies events: those of one revision in one transaction, unless they are too many.
    async fn copy_events(&self, events: &[mvccpb::Event]) -> Result<(), CallError> {
        for events in events.chunk_by(|left, right| revision_of(left) == revision_of(right)) {
            for events in events.chunks(self.max_operations) {
                let success = events.iter().map(|event| self.operation(event)).collect();
                let request = pb::TxnRequest { success, ..Default::default() };
                let _: pb::TxnResponse = self.destination.write(methods::KV_TXN, &request, None).await?;
                self.copied.set(self.copied.get() + i64::try_from(events.len()).unwrap_or(i64::MAX));
            }
        }
        Ok(())
    }

    fn operation(&self, event: &mvccpb::Event) -> pb::RequestOp {
        let kv = event.kv.clone().unwrap_or_default();
        let key = self.naming.apply(&kv.key);
        let request = match event.r#type {
            0 => Request::RequestPut(pb::PutRequest { key, value: kv.value, ..Default::default() }),
            _ => Request::RequestDeleteRange(pb::DeleteRangeRequest { key, ..Default::default() }),
        };
        pb::RequestOp { request: Some(request) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_replaced_once() {
        let naming = Naming { from: b"/a".to_vec(), to: b"/b".to_vec() };
        assert_eq!(naming.apply(b"/a/a").as_ref(), b"/b/a");
        assert_eq!(Naming { from: b"/a".to_vec(), to: Vec::new() }.apply(b"/a/x").as_ref(), b"/x");
        assert_eq!(Naming { from: Vec::new(), to: b"p/".to_vec() }.apply(b"x").as_ref(), b"p/x");
    }
}
