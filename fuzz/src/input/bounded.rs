//! An allocator that ends the process at an allocation whose size can only come from an unchecked length.

use std::alloc::{GlobalAlloc, Layout, System};

/// Inputs have some tens of kilobytes, and what is made of them a small multiple. The largest honest allocation is a
/// reader's window of 1 MiB.
const LARGEST_BYTES: usize = 16 << 20;

struct Bounded;

#[global_allocator]
static BOUNDED: Bounded = Bounded;

fn check(bytes: usize) {
    if bytes > LARGEST_BYTES {
        // A panic would allocate.
        eprintln!("one allocation of {bytes} bytes, more than any input asks for");
        std::process::abort();
    }
}

// SAFETY: all calls go on to the system's allocator as they came.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
