//! Reading the values of versions. They were looked up earlier, and no file was pinned since: a value that moved is met
//! as damage, and read again where its reference says now.

use bytes::Bytes;
use store::{Damaged, RetainedVersion, ValueRef};
use tokio::runtime::Handle;

use crate::node::Node;
use crate::rpc::streamed_range::KnownDamage;

/// Bytes of values that are read together, besides one value of any length.
const MAX_READ_BYTES: usize = 1 << 20;

/// How often a read is tried again that fails because too many files are open; there is a pause before each.
const MAX_TRANSIENT_FAILURES: u32 = 100;

/// Divides versions, so that their values can be read together.
pub(super) fn together(mut versions: &[RetainedVersion]) -> impl Iterator<Item = &[RetainedVersion]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = versions.iter().take_while(|version| {
            bytes += version.kv.value.len as usize;
            bytes <= MAX_READ_BYTES
        });
        let count = fitting.count().max(1).min(versions.len());
        let (some, rest) = versions.split_at(count);
        versions = rest;
        (!some.is_empty()).then_some(some)
    })
}

/// Reads the values of versions, in their order. Has damaged ones repaired by a peer.
///
/// # Errors
/// [`api::Error::Corrupt`] for a value that was repaired and is damaged again, and those of [`Node::repair`].
pub(super) fn read(node: &Node, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, api::Error> {
    let earlier = versions.iter().map(|version| version.kv.value).collect();
    if let Ok(values) = read_references(node, earlier) {
        return Ok(values);
    }
    let (mut known, mut transient) = (KnownDamage::default(), 0);
    loop {
        let damaged = match read_now(node, versions) {
            Ok(values) => return Ok(values),
            Err(damaged) => damaged,
        };
        transient += u32::from(damaged.is_transient);
        if damaged.is_transient && transient <= MAX_TRANSIENT_FAILURES {
            // It pauses. Its error says only that the read failed for the moment.
            let _ = Handle::current().block_on(node.repair(&damaged));
        } else {
            Handle::current().block_on(known.repair(node, &damaged))?;
        }
    }
}

/// Reads the values where they are now.
fn read_now(node: &Node, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, Damaged> {
    let _pin = node.pin();
    let now = |version: &RetainedVersion| {
        let found = node.reader.reference(&version.kv.key, version.kv.mod_revision);
        found.unwrap_or(version.kv.value)
    };
    let names = versions.iter().map(|version| version.kv.key.clone());
    let references: Vec<ValueRef> = versions.iter().map(now).collect();
    let read = read_references(node, references.clone());
    read.map_err(|damaged| {
        let key = names.zip(&references).find(|(_, value)| value.address == damaged.address);
        Damaged { key: key.map(|(key, _)| key), ..damaged }
    })
}

/// Reads values; empty ones are at hand.
fn read_references(node: &Node, references: Vec<ValueRef>) -> Result<Vec<Bytes>, Damaged> {
    let wanted: Vec<ValueRef> = references.iter().filter(|value| value.len > 0).copied().collect();
    let mut read = node.values.read_many(&wanted)?.into_iter();
    Ok(references
        .iter()
        .map(|value| if value.len > 0 { read.next() } else { None }.unwrap_or_default())
        .collect())
}
