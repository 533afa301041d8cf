//! The second pass: pairs in, pages out.

use std::io::Write;

use super::FREELIST_PAGE;
use super::layout::FilePlan;
use super::load::Load;
use super::sink::{Child, PageSink};
use crate::error::WriteError;
use crate::format::{ELEMENT_BYTES, MetaPage, PAGE_BYTES, PageHeader, PageKind, pages_of};

/// What follows the last record of a page.
const ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];

/// Writes a file, page after page. What it writes is exactly as long as the plan says, or it fails: it never writes
/// more.
pub struct FileWriter<W: Write> {
    load: Load<PageWriter<W>>,
    plan: FilePlan,
}

impl<W: Write> FileWriter<W> {
    /// Writes the first pages.
    ///
    /// # Errors
    /// [`WriteError::Output`]
    pub fn new(output: W, plan: FilePlan) -> Result<FileWriter<W>, WriteError> {
        let mut pages =
            PageWriter { output, planned: plan.pages, leaf: LeafBuffer::default(), last_key: Vec::new() };
        let meta = |transaction| MetaPage {
            page_size: PAGE_BYTES as u32,
            root: plan.root,
            freelist: FREELIST_PAGE,
            pages: plan.pages,
            transaction,
        };
        // bbolt writes the meta page of a transaction where its number is even or odd; the next one is 3.
        for (page, transaction) in [(0, 2), (1, 1)] {
            write_page(&mut pages.output, [&meta(transaction).encode(page), b""])?;
        }
        let freelist = PageHeader { page: FREELIST_PAGE, kind: PageKind::Freelist, count: 0, overflow: 0 };
        write_page(&mut pages.output, [&freelist.encode(), b""])?;
        Ok(FileWriter { load: Load::into(pages), plan })
    }

    /// Begins a bucket.
    ///
    /// # Errors
    /// [`WriteError::Order`], [`WriteError::KeyLength`], [`WriteError::Output`], [`WriteError::Plan`]
    pub fn bucket(&mut self, name: &str) -> Result<(), WriteError> {
        self.load.bucket(name)
    }

    /// Adds a pair to the bucket.
    ///
    /// # Errors
    /// All of [`WriteError`].
    pub fn pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        self.load.pair((key, value))
    }

    /// Writes the rest, and returns what it was written to.
    ///
    /// # Errors
    /// [`WriteError::Output`], [`WriteError::Plan`]
    pub fn finish(self) -> Result<W, WriteError> {
        let loaded = self.load.finish()?;
        if (FilePlan { pages: loaded.pages, root: loaded.root }) != self.plan {
            return Err(WriteError::Plan { planned: self.plan.pages });
        }
        Ok(loaded.sink.output)
    }
}

/// Writes pages.
struct PageWriter<W> {
    output: W,
    planned: u64,
    leaf: LeafBuffer,
    /// The last key of the bucket; empty before the first.
    last_key: Vec<u8>,
}

/// The leaf that is being filled. Its buffers are used again for the next one.
#[derive(Default)]
struct LeafBuffer {
    /// Flags and lengths of its pairs.
    pairs: Vec<(u32, u32, u32)>,
    /// Header and elements, when it is complete.
    head: Vec<u8>,
    /// Keys and values.
    bytes: Vec<u8>,
}

impl LeafBuffer {
    /// Makes the head.
    fn complete(&mut self, header: PageHeader) {
        self.head.clear();
        self.head.extend(header.encode());
        let mut offset = (self.pairs.len() * ELEMENT_BYTES) as u32;
        for (flags, key, value) in self.pairs.drain(..) {
            for number in [flags, offset, key, value] {
                self.head.extend(number.to_le_bytes());
            }
            offset = offset - ELEMENT_BYTES as u32 + key + value;
        }
    }
}

/// Writes the two parts of a page, and zeros up to its end.
fn write_page(output: &mut impl Write, parts: [&[u8]; 2]) -> Result<(), WriteError> {
    let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let zeros = pages_of(bytes) * PAGE_BYTES - bytes;
    parts.iter().try_for_each(|part| output.write_all(part))?;
    Ok(output.write_all(&ZEROS[..zeros as usize])?)
}

impl<W: Write> PageWriter<W> {
    fn check_plan(&self, page: u64, overflow: u32) -> Result<(), WriteError> {
        let is_planned = page + u64::from(overflow) < self.planned;
        if is_planned { Ok(()) } else { Err(WriteError::Plan { planned: self.planned }) }
    }
}

impl<W: Write> PageSink for PageWriter<W> {
    type Pair<'a> = (&'a [u8], &'a [u8]);
    type Key = Vec<u8>;

    fn pair<'a>(key: &'a [u8], value: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        (key, value)
    }

    fn lengths((key, value): (&[u8], &[u8])) -> (usize, usize) {
        (key.len(), value.len())
    }

    fn first_key((key, _): (&[u8], &[u8])) -> Vec<u8> {
        key.to_vec()
    }

    fn key_bytes(key: &Vec<u8>) -> usize {
        key.len()
    }

    fn put(&mut self, flags: u32, (key, value): (&[u8], &[u8])) -> Result<(), WriteError> {
        if self.last_key.as_slice() >= key {
            return Err(WriteError::Order("the keys of a bucket"));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        // The lengths were checked.
        self.leaf.pairs.push((flags, key.len() as u32, value.len() as u32));
        self.leaf.bytes.extend_from_slice(key);
        self.leaf.bytes.extend_from_slice(value);
        Ok(())
    }

    fn leaf(&mut self, page: u64, count: u16, overflow: u32) -> Result<(), WriteError> {
        self.check_plan(page, overflow)?;
        self.leaf.complete(PageHeader { page, kind: PageKind::Leaf, count, overflow });
        write_page(&mut self.output, [&self.leaf.head, &self.leaf.bytes])?;
        self.leaf.bytes.clear();
        Ok(())
    }

    fn inline_leaf(&mut self, count: u16) -> Vec<u8> {
        self.leaf.complete(PageHeader { page: 0, kind: PageKind::Leaf, count, overflow: 0 });
        let inline = [&self.leaf.head[..], &self.leaf.bytes].concat();
        self.leaf.bytes.clear();
        inline
    }

    fn branch(&mut self, page: u64, overflow: u32, children: &[Child<Vec<u8>>]) -> Result<(), WriteError> {
        self.check_plan(page, overflow)?;
        let header = PageHeader { page, kind: PageKind::Branch, count: children.len() as u16, overflow };
        let mut head = header.encode().to_vec();
        let mut offset = children.len() * ELEMENT_BYTES;
        for child in children {
            head.extend((offset as u32).to_le_bytes());
            head.extend((child.first.len() as u32).to_le_bytes());
            head.extend(child.page.to_le_bytes());
            offset = offset - ELEMENT_BYTES + child.first.len();
        }
        let keys: Vec<u8> = children.iter().flat_map(|child| child.first.iter().copied()).collect();
        write_page(&mut self.output, [&head, &keys])
    }

    fn begin_bucket(&mut self) {
        self.last_key.clear();
    }
}
