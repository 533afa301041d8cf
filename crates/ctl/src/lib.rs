//! The command line of Stele: etcdctl's commands, and a few for the operators of this store.
//!
//! Called as `etcdctl`, it has exactly that program's commands, flags, variables, outputs and exit codes (of release
//! 3.7.3), so scripts and runbooks keep working. Called as `stele ctl`, it has more.
//!
//! | module | does |
//! |---|---|
//! | `commands` | the table of commands, by which the crate `cli` reads the line |
//! | `client` | calls, with failover and retries |
//! | `command` | etcdctl's commands |
//! | `own` | the commands that etcdctl does not have |
//! | `print` | the forms of answers |
//! | `show` | prints an answer in the form that was requested |
//! | `shell` | what a command works with |
//! | `password` | asks for passwords |
//! | `exit` | exit codes, and messages at the end |
//!
//! It knows the messages of the API and how command lines are read, and no other crate of ours: what it asks, any
//! client could ask.

mod client;
mod command;
mod commands;
mod exit;
mod own;
mod password;
mod print;
mod shell;
mod show;

use std::io::Write;

pub use cli::Streams;
use cli::find::{find, words};
use cli::{Arg, Command, Program, complete, help, parse};
pub use client::tls::TlsFlags;
pub use client::{Address, CallError, Endpoint, Security};
use commands::{ETCDCTL, STELE_CTL};
use exit::{Exit, Outcome, code};
pub use password::ask as ask_password;
use print::{Format, View};
use shell::Shell;

/// Runs one command line, and returns its exit code.
///
/// `own_name` is whether it was called as `stele ctl` instead of `etcdctl`. `line` are the words after the program's
/// name, `variables` the environment.
pub fn run(own_name: bool, line: Vec<Vec<u8>>, variables: Vec<(String, String)>, mut streams: Streams) -> u8 {
    let program = if own_name { STELE_CTL } else { ETCDCTL };
    if let Some(text) = completion(program, &line) {
        return finish(&mut streams, &text);
    }
    let found = match find(program, &line) {
        Ok(found) => found,
        Err(message) => {
            let name = program.name;
            complain(&mut streams, &format!("Error: {message}\nRun '{name} --help' for usage."));
            return code::ERROR;
        }
    };
    let parsed = match parse::parse(program, &found.path, &found.rest) {
        Ok(parsed) => parsed,
        Err(message) => return wrong_usage(program, &found.path, &message, &mut streams),
    };
    if parsed.help || !found.command().runs() {
        let page = streams.page(&help::page(program, &found.path));
        return finish(&mut streams, &page);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&mut streams, &format!("Error: {error}"));
            return code::ERROR;
        }
    };
    let view = View { format: Format::Simple, hex: false, value_only: false };
    let values = parsed.values;
    let mut shell =
        Shell { program, streams, variables, values, args: parsed.args, line, view, options: None };
    let outcome = runtime.block_on(carry_out(&mut shell, &found.path));
    // A command that waits for standard input in a thread of its own must not hold up the end.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => 0,
        Err(exit) => end(&mut shell, &exit),
    }
}

/// Runs the command of a path.
async fn carry_out(shell: &mut Shell, path: &[&'static Command]) -> Outcome {
    let program = shell.program;
    match words(path).as_str() {
        "help" => show_help(shell),
        "options" => show_page(shell, &help::options(program)),
        "completion" => show_script(shell, path),
        words => match own::run(shell, words).await {
            Some(outcome) => outcome,
            None => command::run(shell, words).await,
        },
    }
}

fn show_page(shell: &mut Shell, page: &str) -> Outcome {
    let page = shell.streams.page(page);
    shell.print(page.as_bytes())
}

/// The page of the command that the arguments name.
fn show_help(shell: &mut Shell) -> Outcome {
    let program = shell.program;
    match find(program, &shell.args) {
        Ok(found) if found.rest.is_empty() || found.path.len() > 1 => {
            show_page(shell, &help::page(program, &found.path))
        }
        _ => {
            let text = help::unknown_topic(program, &shell.args);
            shell.complain(shell.streams.error_page(&text).trim_end_matches('\n'));
            Ok(())
        }
    }
}

/// The script that makes a shell complete our lines.
fn show_script(shell: &mut Shell, path: &[&'static Command]) -> Outcome {
    let wrong = match shell.args.as_slice() {
        [name] => match cli::scripts::script(shell.program, &String::from_utf8_lossy(name)) {
            Some(script) => return shell.print(script.as_bytes()),
            None => {
                let name = cli::text::quote::quoted(name);
                format!("invalid argument {name} for \"{} completion\"", shell.program.name)
            }
        },
        args => format!("accepts 1 arg(s), received {}", args.len()),
    };
    let program = shell.program;
    Err(Exit::silent(wrong_usage(program, path, &wrong, &mut shell.streams)))
}

/// The answer to a shell that asks what could come next.
fn completion(program: Program, line: &[Arg]) -> Option<String> {
    match line.split_first()? {
        (first, rest) if first == b"__complete" => Some(complete::proposals(program, rest, true)),
        (first, rest) if first == b"__completeNoDesc" => Some(complete::proposals(program, rest, false)),
        _ => None,
    }
}

fn wrong_usage(program: Program, path: &[&'static Command], message: &str, streams: &mut Streams) -> u8 {
    let usage = streams.error_page(&help::usage(program, path));
    complain(streams, &format!("Error: {message}\n{usage}"));
    code::ERROR
}

/// Prints the error that a command ends with; on a terminal, what to try next too.
fn end(shell: &mut Shell, exit: &Exit) -> u8 {
    if let Some(message) = &exit.message {
        shell.complain(format!("Error: {message}"));
    }
    let hint = exit.cause.as_ref().filter(|_| shell.streams.errors_on_terminal).and_then(own::hints::hint);
    if let Some(hint) = hint {
        shell.complain(format!("Hint: {hint}"));
    }
    exit.code
}

fn finish(streams: &mut Streams, text: &str) -> u8 {
    let printed = streams.out.write_all(text.as_bytes()).and_then(|()| streams.out.flush());
    // A reader that closed its end early (`| head`) is no failure.
    u8::from(printed.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe))
}

fn complain(streams: &mut Streams, text: &str) {
    // Where errors cannot be printed, that cannot be said either.
    let _ = writeln!(streams.errors, "{text}");
}
