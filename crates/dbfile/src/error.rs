//! Why a file cannot be read or written.

use std::io;

/// Why a file cannot be read. Names the page and what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("cannot read {bytes} bytes at offset {offset} of the database file: {source}")]
    Source {
        /// Where it was read.
        offset: u64,
        /// How much was read.
        bytes: u64,
        /// Why it failed.
        source: io::Error,
    },
    /// Neither meta page is one of a bbolt file, or intact.
    #[error("this is not a database file of etcd: neither of its two meta pages is intact")]
    NoMeta,
    /// The file is shorter than its meta page says.
    #[error("the database file is cut off: it has {bytes} bytes, and its {pages} pages take {expected}")]
    Short {
        /// Its length.
        bytes: u64,
        /// Pages that the meta page announces.
        pages: u64,
        /// Bytes of these.
        expected: u64,
    },
    /// A page is damaged.
    #[error("page {page} of the database file is damaged: {problem}")]
    Page {
        /// Its number.
        page: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A record is not one that etcd writes.
    #[error("the bucket {bucket} of the database file has a record that is not etcd's: {problem}")]
    Record {
        /// The bucket's name.
        bucket: String,
        /// What is wrong with the record.
        problem: String,
    },
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// What is written to failed.
    #[error("cannot write the database file: {0}")]
    Output(#[from] io::Error),
    /// Buckets and keys must ascend, each once.
    #[error("{0} do not ascend")]
    Order(&'static str),
    /// A key is empty or too long.
    #[error("a key of {0} bytes does not fit into a database file: 1 to 32768 are possible")]
    KeyLength(usize),
    /// A value is too long.
    #[error("a value of {0} bytes does not fit into a database file: 2^31 - 2 are possible")]
    ValueLength(usize),
    /// A pair came before the first bucket.
    #[error("a pair has no bucket")]
    NoBucket,
    /// What was written is not what the file was laid out for.
    #[error(
        "the database file was laid out for {planned} pages, and other pairs were written than were laid out"
    )]
    Plan {
        /// The pages of the layout.
        planned: u64,
    },
}
