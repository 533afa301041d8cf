//! Items numbered by small integers, in chunks of 64 KiB. Growing adds a chunk and never moves an item, so it never
//! stalls on a large copy.

/// Approximate size of a chunk: large enough that the chunk pointers stay in cache, small enough that a chunk is
/// allocated in microseconds and a small store wastes little.
const CHUNK_BYTES: usize = 64 * 1024;

/// A list that grows and shrinks at its end.
pub(crate) struct ChunkedList<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for ChunkedList<T> {
    fn default() -> ChunkedList<T> {
        ChunkedList { chunks: Vec::new(), len: 0 }
    }
}

impl<T> ChunkedList<T> {
    /// A power of two, so that finding a chunk is a shift.
    const CHUNK_ITEMS: usize = 1 << (CHUNK_BYTES / size_of::<T>()).ilog2();

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an item at the end.
    pub(crate) fn push(&mut self, item: T) {
        if self.len == self.chunks.len() * Self::CHUNK_ITEMS {
            self.chunks.push(Vec::with_capacity(Self::CHUNK_ITEMS));
        }
        self.chunks[self.len / Self::CHUNK_ITEMS].push(item);
        self.len += 1;
    }

    /// Removes the item at the end.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let chunk = self.chunks.last_mut()?;
        let item = chunk.pop();
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.pop();
        }
        item
    }

    /// The item at `at`, below `len`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> &T {
        &self.chunks[at / Self::CHUNK_ITEMS][at % Self::CHUNK_ITEMS]
    }

    /// The item at `at`, below `len`.
    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / Self::CHUNK_ITEMS][at % Self::CHUNK_ITEMS]
    }

    /// Bytes of memory taken, without the heap allocations of the items.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>() + size_of::<Vec<T>>()).sum()
    }
}

/// Items by number; numbers of removed items are reused.
pub(crate) struct Slab<T> {
    items: ChunkedList<T>,
    free: ChunkedList<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: ChunkedList::default(), free: ChunkedList::default() }
    }
}

impl<T: Default> Slab<T> {
    /// Adds an item and returns its number.
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = item;
            return number;
        }
        let number = self.items.len();
        assert!(number < u32::MAX as usize, "four thousand million items need terabytes of memory");
        self.items.push(item);
        number as u32
    }

    /// The item numbered `number`.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &T {
        self.items.get(number as usize)
    }

    /// The item numbered `number`.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        self.items.get_mut(number as usize)
    }

    /// Removes an item; its number may be given to another.
    pub(crate) fn remove(&mut self, number: u32) -> T {
        self.free.push(number);
        std::mem::take(self.get_mut(number))
    }

    /// Bytes of the items that are in use, without their heap allocations: numbers that are free are not accounted.
    pub(crate) fn used_bytes(&self) -> usize {
        (self.items.len() - self.free.len()) * size_of::<T>()
    }

    /// Bytes of memory taken, without the heap allocations of the items.
    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> usize {
        self.items.resident_bytes() + self.free.resident_bytes()
    }
}
