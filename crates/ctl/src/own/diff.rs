//! `diff`: the keys and values in which two clusters, or two revisions, differ.
//!
//! Both sides are read page by page in the order of their keys, and merged, so memory holds two pages whatever their
//! size.

use std::collections::VecDeque;
use std::io::Write;

use api::{etcdserverpb as pb, methods, mvccpb};
use bytes::Bytes;

use crate::client::{CallError, Client, ClientOptions};
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open, parse_endpoints};

/// Keys of one page.
const PAGE_KEYS: i64 = 1000;

/// One side: a range at one revision.
struct Side<'c> {
    client: &'c Client,
    request: pb::RangeRequest,
    page: VecDeque<mvccpb::KeyValue>,
    more: bool,
}

impl<'c> Side<'c> {
    fn new(client: &'c Client, prefix: &[u8], revision: i64) -> Self {
        let (key, range_end) = match prefix {
            b"" => (Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
            prefix => (Bytes::copy_from_slice(prefix), api::prefix_end(prefix)),
        };
        let request = pb::RangeRequest { key, range_end, revision, limit: PAGE_KEYS, ..Default::default() };
        Self { client, request, page: VecDeque::new(), more: true }
    }

    /// Makes sure that the next key is at hand, if there is one.
    async fn fill(&mut self) -> Result<(), CallError> {
        while self.page.is_empty() && self.more {
            let page: pb::RangeResponse = self.client.read(methods::KV_RANGE, &self.request, None).await?;
            if self.request.revision == 0 {
                self.request.revision = page.header.map_or(0, |header| header.revision);
            }
            self.more = page.more;
            if let Some(last) = page.kvs.last() {
                self.request.key = [&last.key[..], b"\0"].concat().into();
            }
            self.page = page.kvs.into();
        }
        Ok(())
    }
}

/// How many keys are on one side only, or differ.
#[derive(Default)]
struct Count {
    equal: u64,
    added: u64,
    removed: u64,
    changed: u64,
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if shell.args.len() > 1 {
        return Err(Exit::bad_args("diff takes at most one argument, a prefix"));
    }
    let (revision, other_revision) = (shell.values.int("rev"), shell.values.int("other-rev"));
    let others = shell.values.list("other");
    if others.is_empty() && revision == other_revision {
        return Err(Exit::bad_args("diff needs --other, a second cluster, or two different revisions"));
    }
    let options = shell.client_options()?;
    let endpoints = if others.is_empty() { options.endpoints.clone() } else { parse_endpoints(&others)? };
    let second = open(ClientOptions { endpoints, ..options.clone() }).await?;
    let first = open(options).await?;
    let prefix = shell.args.first().cloned().unwrap_or_default();
    let mut left = Side::new(&first, &prefix, revision);
    let mut right = Side::new(&second, &prefix, other_revision);
    let count = compare(shell, &mut left, &mut right).await?;
    let differences = count.added + count.removed + count.changed;
    shell.complain(format!(
        "{} keys are equal, {} differ, {} are only in the first, {} only in the second (revisions {} and {})",
        count.equal, count.changed, count.removed, count.added, left.request.revision, right.request.revision
    ));
    if differences == 0 { Ok(()) } else { Err(Exit::silent(code::ERROR)) }
}

/// Walks both sides in the order of their keys.
async fn compare(shell: &mut Shell, left: &mut Side<'_>, right: &mut Side<'_>) -> Result<Count, Exit> {
    let keys_only = shell.values.switch("keys-only");
    let mut count = Count::default();
    loop {
        left.fill().await?;
        right.fill().await?;
        let order = match (left.page.front(), right.page.front()) {
            (None, None) => return Ok(count),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(left), Some(right)) => left.key.cmp(&right.key),
        };
        match order {
            std::cmp::Ordering::Less => {
                count.removed += 1;
                show(shell, '-', left.page.pop_front(), keys_only)?;
            }
            std::cmp::Ordering::Greater => {
                count.added += 1;
                show(shell, '+', right.page.pop_front(), keys_only)?;
            }
            std::cmp::Ordering::Equal => {
                let (old, new) = (left.page.pop_front(), right.page.pop_front());
                let value = |kv: &Option<mvccpb::KeyValue>| kv.as_ref().map(|kv| kv.value.clone());
                if value(&old) == value(&new) {
                    count.equal += 1;
                } else {
                    count.changed += 1;
                    show(shell, '~', new, keys_only)?;
                }
            }
        }
    }
}

/// A line for a difference; on a terminal in colour.
fn show(shell: &mut Shell, sign: char, kv: Option<mvccpb::KeyValue>, keys_only: bool) -> Outcome {
    let Some(kv) = kv else { return Ok(()) };
    let colour = match sign {
        _ if shell.streams.out_columns.is_none() => "",
        '-' => "\x1b[31m",
        '+' => "\x1b[32m",
        _ => "\x1b[33m",
    };
    let reset = if colour.is_empty() { "" } else { "\x1b[0m" };
    let mut line = format!("{colour}{sign} ").into_bytes();
    line.extend_from_slice(&kv.key);
    if !keys_only {
        line.extend_from_slice(b" = ");
        line.extend_from_slice(&kv.value);
    }
    // Writing into memory cannot fail.
    let _ = writeln!(line, "{reset}");
    shell.print(&line)
}
