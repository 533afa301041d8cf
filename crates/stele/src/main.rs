//! The one binary, with several names.
//!
//! | called as | does |
//! |---|---|
//! | `stele [server]`, `etcd` | runs a member |
//! | `stele ctl`, `etcdctl` | the command line of a cluster |
//! | `stele utl`, `etcdutl` | the tool for files of members that do not run |
//! | `stele bench`, `benchmark` | puts load on a cluster, and measures it |
//!
//! The other names are those of links to this binary, so that what starts etcd's programs starts ours.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What a line asks for.
enum EntryPoint {
    Server,
    /// A command line, under our own name or under etcdctl's; with the words behind the name.
    Ctl {
        own_name: bool,
        line: Vec<OsString>,
    },
    /// The tool for files, under our own name or under etcdutl's; with the words behind the name.
    Utl {
        own_name: bool,
        line: Vec<OsString>,
    },
    /// The load generator, under our own name or under benchmark's; with the words behind the name.
    Bench {
        own_name: bool,
        words: Vec<OsString>,
    },
    /// What is not available, by its name.
    Missing(String),
}

fn main() -> ExitCode {
    abort_on_panic();
    match entry_point(std::env::args_os().collect()) {
        EntryPoint::Server => {
            // Small pages: with huge ones each thread's first allocations and every hole in the heap count 2 MiB, a
            // third of what a member with a million small keys holds. Where the kernel does not know the setting, it
            // changes nothing.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
            server::main(|text| ctl::Streams::standard().page(text))
        }
        EntryPoint::Ctl { own_name, line } => {
            let line = line.into_iter().map(OsString::into_vec).collect();
            let text = |text: OsString| text.to_string_lossy().into_owned();
            let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
            ExitCode::from(ctl::run(own_name, line, variables, ctl::Streams::standard()))
        }
        EntryPoint::Utl { own_name, line } => {
            let line = line.into_iter().map(OsString::into_vec).collect();
            ExitCode::from(utl::run(own_name, line, ctl::Streams::standard()))
        }
        EntryPoint::Bench { own_name, words } => ExitCode::from(bench::run(own_name, words)),
        EntryPoint::Missing(name) => {
            eprintln!(
                "{name} is not available in Stele: no process was started. Use etcd's own program for it."
            );
            ExitCode::FAILURE
        }
    }
}

/// Reads the name that the binary was called by, and the first word behind it.
fn entry_point(mut words: Vec<OsString>) -> EntryPoint {
    let called = words
        .first()
        .map(Path::new)
        .and_then(Path::file_name)
        .map(|name| name.to_string_lossy().into_owned());
    let called = called.unwrap_or_default();
    let first = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    match (called.as_str(), first.as_str()) {
        ("etcdctl", _) => EntryPoint::Ctl { own_name: false, line: words.split_off(1) },
        ("etcdutl", _) => EntryPoint::Utl { own_name: false, line: words.split_off(1) },
        ("benchmark", _) => EntryPoint::Bench { own_name: false, words: words.split_off(1) },
        (_, "gateway" | "grpc-proxy") => EntryPoint::Missing(format!("{called} {first}")),
        ("etcd", _) => EntryPoint::Server,
        (_, "utl") => EntryPoint::Utl { own_name: true, line: words.split_off(2) },
        (_, "bench") => EntryPoint::Bench { own_name: true, words: words.split_off(2) },
        (_, "ctl") => EntryPoint::Ctl { own_name: true, line: words.split_off(2) },
        _ => EntryPoint::Server,
    }
}

/// Makes a panic of any thread end the process, in profiles that unwind as in `release`, which does not: the others
/// would wait for that thread forever.
fn abort_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A standard error that is not read would hold up the process forever. Without this thread nothing is printed.
        let end = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(server::PANIC_REPORT_TIMEOUT);
            std::process::abort();
        });
        server::report_panic(panic);
        if end.is_ok() {
            report(panic);
        }
        std::process::abort();
    }));
}
