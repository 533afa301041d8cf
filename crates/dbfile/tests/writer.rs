//! What is written is as long as was planned, is what bbolt's own check accepts (`tests/go/dbfile` runs it on the
//! golden file), and is read back.

use std::collections::BTreeMap;
use std::path::Path;

use dbfile::{DbFile, FileLayout, FileWriter, WriteError};
use proptest::prelude::*;

type Buckets = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn written(buckets: &Buckets) -> Vec<u8> {
    let mut layout = FileLayout::default();
    for (name, pairs) in buckets {
        layout.bucket(name).unwrap();
        pairs.iter().for_each(|(key, value)| layout.pair(key.len(), value.len()).unwrap());
    }
    let plan = layout.finish().unwrap();
    let mut writer = FileWriter::new(Vec::new(), plan).unwrap();
    for (name, pairs) in buckets {
        writer.bucket(name).unwrap();
        pairs.iter().for_each(|(key, value)| writer.pair(key, value).unwrap());
    }
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, plan.bytes());
    bytes
}

fn read(bytes: &[u8]) -> Buckets {
    let file = DbFile::open(bytes).unwrap();
    assert_eq!(file.bytes(), bytes.len() as u64);
    let mut buckets = Buckets::new();
    for name in file.bucket_names().unwrap() {
        let name = String::from_utf8(name).unwrap();
        let mut walk = file.bucket(&name).unwrap().unwrap();
        let mut pairs = BTreeMap::new();
        while let Some((key, value)) = walk.next_pair().unwrap() {
            pairs.insert(key.to_vec(), value.to_vec());
        }
        buckets.insert(name, pairs);
    }
    buckets
}

/// Pairs with keys of `key_bytes` and values of `value_bytes`.
fn pairs(count: usize, key_bytes: usize, value_bytes: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let key = |n: usize| [&vec![b'k'; key_bytes - 4][..], format!("{n:04}").as_bytes()].concat();
    (0..count).map(|n| (key(n), vec![n as u8; value_bytes])).collect()
}

/// A bucket of each form: empty; in its record; at the edge of that; one leaf; values of several pages; a branch;
/// branches of long keys in several levels.
fn shapes() -> Buckets {
    let shapes = [
        ("a empty", pairs(0, 4, 0)),
        ("b inline", pairs(3, 4, 5)),
        ("c just inline", pairs(1, 4, 1024 - 16 - 16 - 4)),
        ("d just not inline", pairs(1, 4, 1024 - 16 - 16 - 3)),
        ("e page", pairs(2, 8, 2024 - 8)),
        ("f large", pairs(3, 10, 9_000)),
        ("g branch", pairs(300, 17, 20)),
        ("h deep", pairs(20, 1_300, 1)),
        ("i long keys", pairs(4, 5_000, 0)),
    ];
    shapes.into_iter().map(|(name, pairs)| (name.to_owned(), pairs)).collect()
}

#[test]
fn each_form_of_a_bucket_is_written_as_in_the_golden_file() {
    let bytes = written(&shapes());
    assert_eq!(read(&bytes), shapes());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/shapes.db");
    if std::fs::read(&golden).ok().as_ref() != Some(&bytes) {
        let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shapes.db");
        std::fs::write(&actual, &bytes).unwrap();
        panic!("{} differs; what is written now is in {}", golden.display(), actual.display());
    }
}

#[test]
fn a_file_without_buckets_has_a_root() {
    let bytes = written(&Buckets::new());
    assert_eq!((bytes.len(), read(&bytes)), (4 * 4096, Buckets::new()));
}

/// As many pairs, from two to more than three levels hold, leave one child over somewhere.
#[test]
fn every_number_of_children_makes_a_tree() {
    for count in 1..50 {
        let buckets = Buckets::from([("b".to_owned(), pairs(count, 1_000, 1))]);
        assert_eq!(read(&written(&buckets)), buckets, "{count} pairs");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_written_is_read(
        buckets in prop::collection::btree_map("[a-z]{1,9}", prop::collection::btree_map(
            prop_oneof![
                4 => prop::collection::vec(any::<u8>(), 1..20),
                1 => prop::collection::vec(any::<u8>(), 900..2_500),
            ],
            prop_oneof![
                8 => prop::collection::vec(any::<u8>(), 0..60),
                1 => prop::collection::vec(any::<u8>(), 2_000..9_000),
            ],
            0..60,
        ), 0..5),
    ) {
        prop_assert_eq!(read(&written(&buckets)), buckets);
    }
}

fn plan(pairs: &[(usize, usize)]) -> dbfile::FilePlan {
    let mut layout = FileLayout::default();
    layout.bucket("b").unwrap();
    pairs.iter().for_each(|(key, value)| layout.pair(*key, *value).unwrap());
    layout.finish().unwrap()
}

#[test]
fn other_pairs_than_were_planned_are_refused() {
    let planned = plan(&[(1, 10), (1, 9_000)]);
    for values in [&[10_usize][..], &[10, 90_000], &[10, 9_000, 9_000]] {
        let mut sent = Vec::new();
        let mut writer = FileWriter::new(&mut sent, planned).unwrap();
        writer.bucket("b").unwrap();
        let ended =
            values.iter().enumerate().try_for_each(|(n, value)| writer.pair(&[n as u8], &vec![0; *value]));
        let ended = ended.and_then(|()| writer.finish().map(drop));
        assert!(matches!(ended, Err(WriteError::Plan { .. })), "{values:?}: {ended:?}");
        assert!(sent.len() as u64 <= planned.bytes(), "never more than was announced");
    }
}

#[test]
fn what_a_file_cannot_hold_is_refused() {
    let mut layout = FileLayout::default();
    assert!(matches!(layout.pair(1, 1), Err(WriteError::NoBucket)));
    layout.bucket("b").unwrap();
    assert!(matches!(layout.bucket("a"), Err(WriteError::Order(_))));
    let mut layout = FileLayout::default();
    layout.bucket("b").unwrap();
    assert!(matches!(layout.pair(0, 1), Err(WriteError::KeyLength(0))));
    assert!(matches!(layout.pair(32_769, 1), Err(WriteError::KeyLength(32_769))));
    assert!(matches!(layout.pair(1, 1 << 31), Err(WriteError::ValueLength(_))));
    let mut writer = FileWriter::new(Vec::new(), plan(&[(1, 1), (1, 1)])).unwrap();
    writer.bucket("b").unwrap();
    writer.pair(b"x", b"1").unwrap();
    assert!(matches!(writer.pair(b"x", b"2"), Err(WriteError::Order(_))), "each key once");
}

/// Takes so many bytes, and fails.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_ends_the_writing() {
    assert!(matches!(FileWriter::new(Full(5_000), plan(&[])).map(drop), Err(WriteError::Output(_))));
    let mut writer = FileWriter::new(Full(3 * 4096), plan(&[(1, 1)])).unwrap();
    writer.bucket("b").unwrap();
    writer.pair(b"x", b"1").unwrap();
    assert!(matches!(writer.finish().map(drop), Err(WriteError::Output(_))));
}
