//! A file of which any byte may be anything is read to its end or refused: without a panic, and in bounded time.

use dbfile::records::{SmallRecords, Versions};
use dbfile::{DbFile, ReadError};
use proptest::prelude::*;

const ETCD: &[u8] = include_bytes!("golden/etcd.snapshot.db");
const SHAPES: &[u8] = include_bytes!("golden/shapes.db");

/// Reads all there is.
fn read(bytes: &[u8]) -> Result<usize, ReadError> {
    let file = DbFile::open(bytes)?;
    let mut pairs = 0;
    for name in file.bucket_names()? {
        let Some(mut walk) = file.bucket(&String::from_utf8_lossy(&name))? else { continue };
        while walk.next_pair()?.is_some() {
            pairs += 1;
        }
    }
    let mut versions = Versions::of(&file)?;
    while versions.next_version()?.is_some() {}
    SmallRecords::read(&file)?;
    Ok(pairs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Behind the meta pages, which have a checksum.
    #[test]
    fn changed_bytes_are_met(changes in prop::collection::vec((0.0..1.0f64, 0..64usize, any::<u8>()), 1..12),
                             is_etcds in any::<bool>()) {
        let mut bytes = if is_etcds { ETCD.to_vec() } else { SHAPES.to_vec() };
        let pages = bytes.len() / 4096;
        for (page, at, byte) in changes {
            let page = 2 + (page * (pages - 2) as f64) as usize;
            bytes[page * 4096 + at] = byte;
        }
        drop(read(&bytes));
    }
}

/// The text of the error that reading ends with.
fn refusal(bytes: &[u8]) -> String {
    read(bytes).expect_err("it is damaged").to_string()
}

#[test]
fn intact_files_are_read() {
    assert!(read(ETCD).is_ok());
    let shapes = DbFile::open(SHAPES).unwrap();
    assert_eq!(shapes.bucket_names().unwrap().len(), 9);
}

#[test]
fn what_is_no_file_is_refused() {
    assert!(refusal(b"").contains("not a database file"));
    assert!(refusal(&[0; 9_000]).contains("not a database file"));
    assert!(refusal(&ETCD[..ETCD.len() - 4096]).contains("cut off"));
}

#[test]
fn either_meta_page_is_enough() {
    for page in [0, 1] {
        let mut bytes = ETCD.to_vec();
        bytes[page * 4096..page * 4096 + 80].fill(0);
        assert!(read(&bytes).is_ok(), "without meta page {page}");
    }
    let mut bytes = ETCD.to_vec();
    bytes[..2 * 4096].fill(0);
    assert!(refusal(&bytes).contains("not a database file"));
}

/// The pages of `SHAPES`: page 0 to 2 as always, then those of its buckets.
fn changed(page: usize, at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = SHAPES.to_vec();
    bytes[page * 4096 + at..][..with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn pages_that_are_not_what_they_should_be_are_named() {
    let cases: [(&[u8], usize, &str); 7] = [
        (&[9], 0, "number of another page"),
        (&[0], 8, "no kind that is known"),
        (&[4], 8, "neither a branch nor a leaf"),
        (&[255, 255], 10, "more elements than fit"),
        (&[255, 255, 255, 255], 12, "beyond the end of the file"),
        (&[7], 16, "flags that are not known"),
        (&[255, 255], 24, "goes beyond its end"),
    ];
    for (with, at, problem) in cases {
        let text = refusal(&changed(3, at, with));
        assert!(text.contains("page 3") && text.contains(problem), "{text}");
    }
}

#[test]
fn keys_that_do_not_ascend_and_trees_that_lead_into_themselves_are_refused() {
    // The page of "e page" has two keys of 8 bytes behind two elements; the second ends with 1.
    let second = SHAPES.windows(8).position(|bytes| bytes == b"kkkk0001").unwrap();
    let mut bytes = SHAPES.to_vec();
    bytes[second + 7] = b'0';
    assert!(refusal(&bytes).contains("do not ascend"));
    // Every child of every branch becomes the branch itself.
    let mut bytes = SHAPES.to_vec();
    for page in 3..bytes.len() / 4096 {
        let at = page * 4096;
        let is_page = bytes[at..at + 8] == (page as u64).to_le_bytes();
        if is_page && bytes[at + 8] == 1 {
            bytes[at + 16 + 8..at + 32].copy_from_slice(&(page as u64).to_le_bytes());
        }
    }
    let text = refusal(&bytes);
    assert!(text.contains("has a cycle") || text.contains("deeper than any tree"), "{text}");
}
