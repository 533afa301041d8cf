//! The one binary: `stele server`, plain `stele`, or called as `etcd`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Small pages: with huge ones each thread's first allocations and every hole in the heap count 2 MiB, a third of
    // what a member with a million small keys holds. Where the kernel does not know the setting, it changes nothing.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    server::main()
}
