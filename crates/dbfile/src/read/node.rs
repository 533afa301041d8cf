//! One page of a tree: its elements, with all bounds checked.

use crate::format::{
    BUCKET_BYTES, BUCKET_FLAG, ELEMENT_BYTES, MAX_KEY_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind, u32_at,
    u64_at,
};

/// What is wrong with a page.
pub(super) type Problem = &'static str;

/// A page of a tree.
pub(super) struct TreeNode {
    header: PageHeader,
    bytes: Vec<u8>,
}

/// An element of a page.
pub(super) enum Element<'a> {
    /// A child of a branch.
    Child(u64),
    /// A pair of a leaf.
    Pair(&'a [u8], &'a [u8]),
    /// A bucket of a leaf, by its name and head.
    Bucket(&'a [u8], &'a [u8]),
}

impl TreeNode {
    /// A page with this header.
    pub(super) fn new(header: PageHeader, bytes: Vec<u8>) -> Result<TreeNode, Problem> {
        if !matches!(header.kind, PageKind::Branch | PageKind::Leaf) {
            return Err("it is neither a branch nor a leaf");
        }
        if header.kind == PageKind::Branch && header.count == 0 {
            return Err("it is a branch without children");
        }
        if PAGE_HEADER_BYTES + usize::from(header.count) * ELEMENT_BYTES > bytes.len() {
            return Err("it has more elements than fit into it");
        }
        Ok(TreeNode { header, bytes })
    }

    /// The leaf in the record of a small bucket.
    pub(super) fn inline(bytes: &[u8]) -> Result<TreeNode, Problem> {
        let header = bytes.first_chunk::<PAGE_HEADER_BYTES>().and_then(PageHeader::decode);
        match header {
            Some(header) if header.kind == PageKind::Leaf => TreeNode::new(header, bytes.to_vec()),
            _ => Err("a bucket in it has neither a page nor a leaf of its own"),
        }
    }

    /// The number of the page, 0 of an inline leaf.
    pub(super) fn page(&self) -> u64 {
        self.header.page
    }

    /// How many pages it takes.
    pub(super) fn pages(&self) -> u64 {
        1 + u64::from(self.header.overflow)
    }

    /// The element with this number; `None` after the last.
    pub(super) fn element(&self, number: usize) -> Result<Option<Element<'_>>, Problem> {
        if number >= usize::from(self.header.count) {
            return Ok(None);
        }
        let at = PAGE_HEADER_BYTES + number * ELEMENT_BYTES;
        if self.header.kind == PageKind::Branch {
            return Ok(Some(Element::Child(u64_at(&self.bytes, at + 8))));
        }
        let [flags, offset, key, value] = [0, 4, 8, 12].map(|field| u32_at(&self.bytes, at + field));
        let start = at + offset as usize;
        let key = self.slice(start, key)?;
        let value = self.slice(start + key.len(), value)?;
        match flags {
            _ if key.is_empty() || key.len() > MAX_KEY_BYTES => Err("a key is empty or too long"),
            0 => Ok(Some(Element::Pair(key, value))),
            BUCKET_FLAG => Ok(Some(Element::Bucket(key, value))),
            _ => Err("a record has flags that are not known"),
        }
    }

    fn slice(&self, start: usize, length: u32) -> Result<&[u8], Problem> {
        let end = start.saturating_add(length as usize);
        self.bytes.get(start..end).ok_or("a record goes beyond its end")
    }
}

/// The root page of a bucket, from its head, or the leaf in its record.
pub(super) fn root_of(head: &[u8]) -> Result<Result<u64, TreeNode>, Problem> {
    if head.len() < BUCKET_BYTES {
        return Err("the record of a bucket is too short");
    }
    match u64_at(head, 0) {
        0 => TreeNode::inline(&head[BUCKET_BYTES..]).map(Err),
        page => Ok(Ok(page)),
    }
}
