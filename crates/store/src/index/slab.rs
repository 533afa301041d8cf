//! Items numbered by small integers, in chunks of 64 KiB. Growing adds a chunk and never moves an item, so it never
//! stalls on a large copy.

/// Approximate size of a chunk: large enough that the chunk pointers stay in cache, small enough that a chunk is
/// allocated in microseconds and a small store wastes little.
const CHUNK_BYTES: usize = 64 * 1024;

/// Items by number; numbers of removed items are reused.
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// A power of two, so that finding a chunk is a shift.
    const CHUNK_ITEMS: usize = 1 << (CHUNK_BYTES / size_of::<T>()).ilog2();

    /// Adds an item and returns its number.
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = item;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == Self::CHUNK_ITEMS) {
            self.chunks.push(Vec::with_capacity(Self::CHUNK_ITEMS));
        }
        let chunks = self.chunks.len();
        let chunk = &mut self.chunks[chunks - 1];
        chunk.push(item);
        let number = (chunks - 1) * Self::CHUNK_ITEMS + chunk.len() - 1;
        assert!(number < u32::MAX as usize, "four thousand million items need terabytes of memory");
        number as u32
    }

    /// The item numbered `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        &self.chunks[number as usize / Self::CHUNK_ITEMS][number as usize % Self::CHUNK_ITEMS]
    }

    /// The item numbered `number`.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / Self::CHUNK_ITEMS][number as usize % Self::CHUNK_ITEMS]
    }

    /// Removes an item; its number may be given to another.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        std::mem::take(self.get_mut(number))
    }

    /// Bytes of the items that are in use, without their heap allocations: numbers that are free are not accounted.
    pub(crate) fn used_bytes(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * Self::CHUNK_ITEMS;
        let last = self.chunks.last().map_or(0, Vec::len);
        (full + last - self.free.len()) * size_of::<T>()
    }

    /// Bytes of memory taken, without the heap allocations of the items.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>() + size_of::<Vec<T>>()).sum::<usize>()
            + self.free.capacity() * size_of::<u32>()
    }
}
