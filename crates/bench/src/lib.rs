//! The load generator: the commands and options of etcd's `benchmark`, with its report, and more under Stele's own
//! name.
//!
//! Called as `benchmark` it is that program (of release 3.7.3), for a fraction of the CPU time. Called as
//! `stele bench` it also makes load at a fixed rate without coordinated omission, mixed loads and that of a Kubernetes
//! control plane, tells what servers on this machine used, and writes results as JSON and as pages with plots.
//!
//! | module | does |
//! |---|---|
//! | `cli` | reads the line |
//! | `line_check` | refuses, before anything is dialled, options that a command cannot honour |
//! | `wire`, `client` | calls, for little CPU time |
//! | `session` | what a command works with: connections, the runs of clients |
//! | `interrupt` | Ctrl-C |
//! | `schedule` | when requests are made |
//! | `record` | latencies |
//! | `servers` | what processes use |
//! | `print` | the two streams of the process |
//! | `progress` | the bar on a terminal |
//! | `command` | the commands of `benchmark` |
//! | `own` | the commands that it does not have |
//! | `report` | the forms of a result |
//!
//! It is a client: it knows the API's messages, and nothing of what a server is made of.

mod cli;
mod client;
mod command;
mod interrupt;
mod line_check;
mod own;

mod print;
mod progress;
mod record;
mod report;
mod schedule;
mod servers;
mod session;
mod wire;

use std::ffi::OsString;
use std::rc::Rc;

use cli::{Line, NoRun, Task};
use interrupt::Interrupt;
use print::{complain, say};
use session::BenchSession;

/// The exit code of a run that failed.
const FAILED: u8 = 1;

/// Runs one command line, and returns its exit code.
///
/// `own_name` is whether it was called as `stele bench` instead of `benchmark`; `words` are those after the program's
/// name.
pub fn run(own_name: bool, words: Vec<OsString>) -> u8 {
    let said = print::without_password(words.iter().map(|word| word.to_string_lossy()));
    let line = match cli::read(own_name, words) {
        Ok(line) => line,
        Err(NoRun::Page(page)) => {
            say(&::cli::Streams::standard().page(&page));
            return 0;
        }
        Err(NoRun::Refused { text, code }) => {
            complain(&::cli::Streams::standard().error_page(&text));
            return code;
        }
        Err(NoRun::Wrong(text)) => {
            let name = if own_name { "stele bench" } else { "benchmark" };
            complain(&format!("Error: {text}. Run '{name} --help' for usage."));
            return cli::WRONG_LINE;
        }
    };
    match carry_out(own_name, line, &said) {
        Ok(()) => 0,
        Err(text) => {
            complain(&text);
            FAILED
        }
    }
}

fn carry_out(own_name: bool, line: Line, said: &str) -> Result<(), String> {
    line_check::check(&line)?;
    match line.task {
        Task::Completion(options) => {
            say(&command::completion(&options, cli::for_scripts(own_name)));
            return Ok(());
        }
        Task::Report(options) => return own::report(&options, line.own.html.as_deref()),
        Task::Mvcc(cli::etcd::MvccTask::Put(_)) => return Err(command::no_mvcc()),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let interrupt = Rc::new(Interrupt::default());
        tokio::select! {
            outcome = work(own_name, &line, said, &interrupt) => outcome,
            () = interrupt.run_is_to_end() => Err("interrupted".to_owned()),
        }
    })
}

async fn work(own_name: bool, line: &Line, said: &str, interrupt: &Rc<Interrupt>) -> Result<(), String> {
    let mut session = BenchSession::open(own_name, line, said, interrupt).await?;
    match &line.task {
        Task::Mixed(options) => own::mixed(&mut session, options).await?,
        Task::Kubernetes(options) => own::kubernetes(&mut session, options).await?,
        Task::Suite(options) => own::suite(&mut session, options).await?,
        task => command::run(&mut session, task).await?,
    }
    session.close()
}
