//! The one binary: `stele server`, plain `stele`, or called as `etcd`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    abort_on_panic();
    // Small pages: with huge ones each thread's first allocations and every hole in the heap count 2 MiB, a third of
    // what a member with a million small keys holds. Where the kernel does not know the setting, it changes nothing.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    server::main()
}

/// Makes a panic of any thread end the process, in profiles that unwind as in `release`, which does not: the others
/// would wait for that thread for ever.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
