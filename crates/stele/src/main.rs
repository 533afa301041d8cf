//! The one binary: `stele server`, plain `stele`, or called as `etcd`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    server::main()
}
