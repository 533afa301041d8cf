//! Reading many values to where they are wanted.
//!
//! A caller that knows how long its answer will be lays it out first, with a gap for each value; this fills the gaps.
//! Each value is copied once, from the tail or the page cache. Reading is what costs, not copying: values that lie
//! close together in a file are read with one call, and what may be asked for again is [kept](crate::cache).

use crate::cache::Access;
use crate::error::ReadError;
use crate::reader::{OpenFile, Shelf};
use crate::types::{Stored, file_of};

/// Values this close together are read at once: reading a gap of a page costs less than another system call.
const COALESCE_GAP_BYTES: u64 = 4096;
/// Most bytes read at once, gaps included: what is copied out of them is then still in the cache.
const COALESCE_BYTES_MAX: u64 = 256 << 10;

/// Most values, and about the most bytes, that are copied in one hold of the tail's lock, which writers need too.
const TAIL_HOLD_VALUES: usize = 64;
const TAIL_HOLD_BYTES: usize = 64 << 10;

/// A value that is wanted, and the room its bytes are to fill exactly.
#[derive(Debug)]
pub struct Gap<'a> {
    /// The value.
    pub value: Stored,
    /// As many bytes as the value has.
    pub into: &'a mut [u8],
}

impl Gap<'_> {
    fn end(&self) -> u64 {
        self.value.place + u64::from(self.value.len)
    }
}

impl Shelf {
    /// Fills all gaps: from the tail or the cache where they have the value.
    pub(crate) fn fill(&self, gaps: &mut [Gap<'_>], access: Access) -> Result<(), ReadError> {
        assert!(
            gaps.iter().all(|gap| gap.into.len() == gap.value.len as usize),
            "a gap is as long as its value"
        );
        let mut unfilled = self.fill_from_tail(gaps);
        if access == Access::Query {
            unfilled = self.cache.fill(&mut gaps[..unfilled]);
        }
        let rest = &mut gaps[..unfilled];
        let mut failed = None;
        self.fill_from_files(rest, &mut |_, error| failed = Some(error));
        if let Some(error) = failed {
            return Err(error);
        }
        if access == Access::Query {
            self.cache.keep(rest);
        }
        Ok(())
    }

    /// Fills what the tail has, moves the others to the front and returns how many they are.
    fn fill_from_tail(&self, gaps: &mut [Gap<'_>]) -> usize {
        let (mut unfilled, mut next) = (0, 0);
        while next < gaps.len() {
            let tail = self.tail.read();
            let (first, mut bytes) = (next, 0);
            while next < gaps.len() && next - first < TAIL_HOLD_VALUES && bytes < TAIL_HOLD_BYTES {
                let gap = &mut gaps[next];
                bytes += gap.into.len();
                if !gap.into.is_empty() && !tail.copy(gap.value.place, gap.into) {
                    gaps.swap(unfilled, next);
                    unfilled += 1;
                }
                next += 1;
            }
        }
        unfilled
    }

    /// Fills gaps from files and tells `failed` of those it could not fill. The order of the gaps changes.
    pub(crate) fn fill_from_files(&self, gaps: &mut [Gap<'_>], failed: &mut impl FnMut(Stored, ReadError)) {
        gaps.sort_unstable_by_key(|gap| gap.value.place);
        let mut rest = gaps;
        let mut open = None;
        let mut together = Vec::new();
        while !rest.is_empty() {
            let (run, after) = rest.split_at_mut(neighbours(rest));
            rest = after;
            if run.len() > 1 && self.fill_together(run, &mut open, &mut together).is_ok() {
                continue;
            }
            for gap in run {
                if let Err(error) = self.fill_one(gap, &mut open) {
                    failed(gap.value, error);
                }
            }
        }
    }

    /// The file of a place; the one that was used last if it is the same.
    fn opened<'s, 'o>(
        &'s self,
        place: u64,
        open: &'o mut Option<OpenFile<'s>>,
    ) -> Result<&'o OpenFile<'s>, ReadError> {
        match open {
            Some(file) if file.number() == file_of(place) => {}
            _ => *open = Some(self.open(place)?),
        }
        Ok(open.as_ref().expect("it was just opened"))
    }

    fn fill_one<'s>(&'s self, gap: &mut Gap<'_>, open: &mut Option<OpenFile<'s>>) -> Result<(), ReadError> {
        self.opened(gap.value.place, open)?.read(gap.value.place, gap.into)?;
        self.check(gap.value, gap.into)
    }

    /// Reads a run of values, and what lies between them, with one call. When that fails, or anything does not check,
    /// nothing is said of the values: each is to be read alone.
    fn fill_together<'s>(
        &'s self,
        run: &mut [Gap<'_>],
        open: &mut Option<OpenFile<'s>>,
        together: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let start = run[0].value.place;
        let end = run.iter().map(Gap::end).max().expect("a run is not empty");
        let len = (end - start) as usize;
        if together.len() < len {
            together.resize(len, 0);
        }
        let together = &mut together[..len];
        self.opened(start, open)?.read(start, together)?;
        for gap in run {
            let from = (gap.value.place - start) as usize;
            gap.into.copy_from_slice(&together[from..from + gap.into.len()]);
            self.check(gap.value, gap.into)?;
        }
        Ok(())
    }
}

/// How many of the gaps, sorted by place, are worth reading at once from the first on.
fn neighbours(sorted: &[Gap<'_>]) -> usize {
    let start = sorted[0].value.place;
    let mut end = sorted[0].end();
    let is_near = |gap: &&Gap<'_>| {
        let reach = gap.end().max(end);
        let near = gap.value.place <= end + COALESCE_GAP_BYTES && reach - start <= COALESCE_BYTES_MAX;
        end = reach;
        near && file_of(gap.value.place) == file_of(start)
    };
    1 + sorted[1..].iter().take_while(is_near).count()
}
