//! Reading the values of versions. They were looked up earlier, and no file was pinned since: a value that moved is met
//! as damage, and read again where its reference says now.

use bytes::Bytes;
use store::{Damaged, RetainedVersion, ValueRef};
use tokio::runtime::Handle;

use crate::node::Node;
use crate::rpc::streamed_range::KnownDamage;

/// How often a read is tried again that fails because too many files are open; there is a pause before each.
const MAX_TRANSIENT_FAILURES: u32 = 100;

/// Where values are read.
pub(super) trait StoredValues {
    /// Reads values, none of them empty, in their order.
    fn read(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged>;

    /// Reads the values of versions where they are now.
    fn read_now(&self, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, Damaged>;

    /// Has a value repaired; after a read that failed only for the moment, pauses.
    ///
    /// # Errors
    /// When it cannot be repaired, and always after such a pause.
    fn repair(&mut self, damaged: &Damaged) -> Result<(), api::Error>;
}

/// Reads the values of versions, in their order. Has damaged ones repaired by a peer.
///
/// # Errors
/// Those of [`StoredValues::repair`].
pub(super) fn read(
    source: &mut impl StoredValues,
    versions: &[RetainedVersion],
) -> Result<Vec<Bytes>, api::Error> {
    let wanted: Vec<ValueRef> =
        versions.iter().map(|version| version.kv.value).filter(|value| value.len > 0).collect();
    if let Ok(read) = source.read(&wanted) {
        return Ok(with_empty(versions, read));
    }
    let mut transient = 0;
    loop {
        let damaged = match source.read_now(versions) {
            Ok(read) => return Ok(with_empty(versions, read)),
            Err(damaged) => damaged,
        };
        let repaired = source.repair(&damaged);
        transient += u32::from(damaged.is_transient);
        if !damaged.is_transient || transient > MAX_TRANSIENT_FAILURES {
            repaired?;
        }
    }
}

/// The values of versions, given those that are not empty.
fn with_empty(versions: &[RetainedVersion], read: Vec<Bytes>) -> Vec<Bytes> {
    let mut read = read.into_iter();
    let value = |version: &RetainedVersion| match version.kv.value.len {
        0 => Bytes::new(),
        _ => read.next().unwrap_or_default(),
    };
    versions.iter().map(value).collect()
}

/// The values of a member.
pub(super) struct NodeValues<'a> {
    node: &'a Node,
    known: KnownDamage,
}

impl<'a> NodeValues<'a> {
    pub(super) fn new(node: &'a Node) -> NodeValues<'a> {
        NodeValues { node, known: KnownDamage::default() }
    }
}

impl StoredValues for NodeValues<'_> {
    fn read(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
        self.node.values.read_many(values)
    }

    fn read_now(&self, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, Damaged> {
        let _pin = self.node.pin();
        let with_value = versions.iter().filter(|version| version.kv.value.len > 0);
        let references: Vec<ValueRef> = with_value
            .clone()
            .map(|version| {
                let found = self.node.reader.reference(&version.kv.key, version.kv.mod_revision);
                found.unwrap_or(version.kv.value)
            })
            .collect();
        self.read(&references).map_err(|damaged| {
            let mut named = with_value.zip(&references);
            let named = named.find(|(_, value)| value.address == damaged.address);
            Damaged { key: named.map(|(version, _)| version.kv.key.clone()), ..damaged }
        })
    }

    fn repair(&mut self, damaged: &Damaged) -> Result<(), api::Error> {
        let runtime = Handle::current();
        if damaged.is_transient {
            return runtime.block_on(self.node.repair(damaged));
        }
        runtime.block_on(self.known.repair(self.node, damaged))
    }
}

#[cfg(test)]
mod tests {
    //! Values that moved, that are damaged, and that cannot be read for the moment.
    use std::cell::Cell;

    use store::{KvRef, Revision};

    use super::*;

    /// Where a value is now, and for how many reads it cannot be read.
    #[derive(Default)]
    struct Moved {
        failing: Cell<u32>,
        is_transient: bool,
        repairs: Vec<u64>,
        is_lost: bool,
    }

    impl Moved {
        fn at(&self, address: u64) -> Result<Vec<Bytes>, Damaged> {
            let reason = "the test says so".into();
            Err(Damaged { address, len: 1, key: None, reason, is_transient: self.is_transient })
        }
    }

    impl StoredValues for Moved {
        fn read(&self, values: &[ValueRef]) -> Result<Vec<Bytes>, Damaged> {
            assert!(values.iter().all(|value| value.len > 0));
            self.at(values[0].address)
        }

        fn read_now(&self, versions: &[RetainedVersion]) -> Result<Vec<Bytes>, Damaged> {
            if self.failing.get() > 0 {
                self.failing.set(self.failing.get() - 1);
                return self.at(77);
            }
            let values = versions.iter().filter(|version| version.kv.value.len > 0);
            Ok(values.map(|version| version.kv.key.clone()).collect())
        }

        fn repair(&mut self, damaged: &Damaged) -> Result<(), api::Error> {
            self.repairs.push(damaged.address);
            if self.is_lost || self.is_transient { Err(api::Error::Corrupt) } else { Ok(()) }
        }
    }

    fn version(key: &'static str, len: u32) -> RetainedVersion {
        let value = if len > 0 { ValueRef { address: 5, len, checksum: 0 } } else { ValueRef::default() };
        let kv = KvRef {
            key: key.into(),
            create_revision: 2,
            mod_revision: Revision { main: 2, sub: 0 },
            version: 1,
            lease: 0,
            value,
        };
        RetainedVersion { kv, tombstone: false }
    }

    #[test]
    fn values_are_read_where_they_are_now_and_repaired() {
        let versions = [version("a", 1), version("b", 0), version("c", 1)];
        let expected: [&[u8]; 3] = [b"a", b"", b"c"];
        for (failing, is_transient) in [(0, false), (2, false), (MAX_TRANSIENT_FAILURES, true)] {
            let mut source = Moved { failing: Cell::new(failing), is_transient, ..Moved::default() };
            assert_eq!(read(&mut source, &versions).unwrap(), expected);
            assert_eq!(source.repairs, vec![77; failing as usize], "a value that only moved is not repaired");
        }
    }

    #[test]
    fn a_value_that_is_lost_fails_the_backup() {
        let mut lost = Moved { failing: Cell::new(9), is_lost: true, ..Moved::default() };
        assert_eq!(read(&mut lost, &[version("a", 1)]), Err(api::Error::Corrupt));
        let failing = Cell::new(MAX_TRANSIENT_FAILURES + 1);
        let mut transient = Moved { failing, is_transient: true, ..Moved::default() };
        assert_eq!(read(&mut transient, &[version("a", 1)]), Err(api::Error::Corrupt));
    }
}
