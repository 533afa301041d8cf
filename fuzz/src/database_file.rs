//! A database file of etcd, in which every byte may be anything, is read: its buckets, versions and other records.
//!
//! The pairs that are found are written as a file again, which has the same pairs. The meta pages have a checksum that
//! the fuzzer cannot guess: it is set right before.

use dbfile::records::{SmallRecords, Versions};
use dbfile::{DbFile, FileLayout, FileWriter, ReadError};

/// Where a meta page may begin in a small file, and what of it the checksum covers.
const META_PAGES: [usize; 4] = [0, 1024, 2048, 4096];
const SUMMED: std::ops::Range<usize> = 16..72;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads the bytes as a file.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut data = data.to_vec();
    META_PAGES.into_iter().for_each(|at| set_checksum(&mut data, at));
    let Ok(file) = DbFile::open(&data[..]) else { return };
    drop(SmallRecords::read(&file));
    if let Ok(mut versions) = Versions::of(&file) {
        while versions.next_version().is_ok_and(|version| version.is_some()) {}
    }
    let Ok(names) = file.bucket_names() else { return };
    for name in names.into_iter().filter_map(|name| String::from_utf8(name).ok()) {
        let Ok(pairs) = pairs(&file, &name) else { continue };
        let bytes = written(&name, &pairs);
        let again = DbFile::open(&bytes[..]).expect("our own file is intact");
        assert!(self::pairs(&again, &name).is_ok_and(|again| again == pairs));
    }
}

fn set_checksum(data: &mut [u8], at: usize) {
    let Some(page) = data.get_mut(at..at + SUMMED.end + 8) else { return };
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let sum = page[SUMMED].iter().fold(0xCBF2_9CE4_8422_2325, add);
    page[SUMMED.end..].copy_from_slice(&sum.to_le_bytes());
}

fn pairs(file: &DbFile<&[u8]>, name: &str) -> Result<Pairs, ReadError> {
    let mut pairs = Pairs::new();
    let Some(mut walk) = file.bucket(name)? else { return Ok(pairs) };
    while let Some((key, value)) = walk.next_pair()? {
        pairs.push((key.to_vec(), value.to_vec()));
    }
    Ok(pairs)
}

fn written(name: &str, pairs: &Pairs) -> Vec<u8> {
    let fits = "what was read can be written";
    let mut layout = FileLayout::default();
    layout.bucket(name).expect(fits);
    pairs.iter().for_each(|(key, value)| layout.pair(key.len(), value.len()).expect(fits));
    let mut writer = FileWriter::new(Vec::new(), layout.finish().expect(fits)).expect(fits);
    writer.bucket(name).expect(fits);
    pairs.iter().for_each(|(key, value)| writer.pair(key, value).expect(fits));
    writer.finish().expect(fits)
}
