//! The contents of one file in memory: what is there now, and what a crash may undo.

use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;
type Page = [u8; PAGE_BYTES as usize];
static ZERO_PAGE: Page = [0; PAGE_BYTES as usize];

/// A change that is unsynced when power is lost. The caller answers how much of it survives, from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// A write of this many bytes.
    Bytes(u64),
    /// Another length of a file: 0 or 1.
    Length,
    /// This many changes of the names in one directory.
    Names(u64),
}

#[derive(Clone, Default)]
pub(super) struct Inode {
    pages: BTreeMap<u64, Arc<Page>>,
    pub(super) length: u64,
    pub(super) pending: Vec<PendingChange>,
    pub(super) handles: u64,
}

/// One unsynced change of a file with what it replaced, so that a crash can undo it.
#[derive(Clone)]
pub(super) struct PendingChange {
    offset: u64,
    old: Vec<u8>,
    new: Vec<u8>,
    old_length: u64,
    new_length: u64,
}

impl Inode {
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let end = self.length.min(offset + buffer.len() as u64);
        let mut at = offset;
        while at < end {
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE_BYTES - within as u64).min(end - at) as usize;
            let page = self.pages.get(&(at / PAGE_BYTES)).map_or(&ZERO_PAGE, |page| page.as_ref());
            let start = (at - offset) as usize;
            buffer[start..start + count].copy_from_slice(&page[within..within + count]);
            at += count as u64;
        }
        end.saturating_sub(offset) as usize
    }

    /// The first offset from `offset` on that lies in a page that was written.
    pub(super) fn next_written(&self, offset: u64) -> Option<u64> {
        let (page, _) = self.pages.range(offset / PAGE_BYTES..).next()?;
        Some(offset.max(page * PAGE_BYTES)).filter(|written| *written < self.length)
    }

    /// Writes without remembering.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % PAGE_BYTES) as usize;
            let count = (PAGE_BYTES as usize - within).min(bytes.len() - done);
            let page = self.pages.entry(at / PAGE_BYTES).or_insert_with(|| Arc::new(ZERO_PAGE));
            Arc::make_mut(page)[within..within + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    pub(super) fn write(&mut self, offset: u64, new: Vec<u8>) {
        let mut old = vec![0; new.len()];
        self.read(&mut old, offset);
        let old_length = self.length;
        self.put(offset, &new);
        self.pending.push(PendingChange { offset, old, new, old_length, new_length: self.length });
    }

    pub(super) fn resize(&mut self, length: u64) {
        let old_length = self.length;
        let kept = length.min(old_length);
        let mut old = vec![0; (old_length - kept) as usize];
        self.read(&mut old, kept);
        self.cut(length);
        self.pending.push(PendingChange {
            offset: kept,
            old,
            new: Vec::new(),
            old_length,
            new_length: length,
        });
    }

    fn cut(&mut self, length: u64) {
        let first_gone = length.div_ceil(PAGE_BYTES);
        self.pages.retain(|number, _| *number < first_gone);
        let within = (length % PAGE_BYTES) as usize;
        if let Some(page) = self.pages.get_mut(&(length / PAGE_BYTES)) {
            Arc::make_mut(page)[within..].fill(0);
        }
        self.length = length;
    }

    /// Loses power: `survives` says how much of each unsynced change is there afterwards, in the order they were made.
    pub(super) fn crash(&mut self, survives: &mut dyn FnMut(Unsynced) -> u64) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending.iter().rev() {
            self.put(change.offset, &change.old);
            self.cut(change.old_length);
        }
        for change in &pending {
            let bytes = change.new.len();
            if bytes == 0 {
                if survives(Unsynced::Length) > 0 {
                    self.cut(change.new_length);
                }
                continue;
            }
            let kept = survives(Unsynced::Bytes(bytes as u64)).min(bytes as u64) as usize;
            if kept > 0 {
                self.put(change.offset, &change.new[..kept]);
            }
        }
    }
}
