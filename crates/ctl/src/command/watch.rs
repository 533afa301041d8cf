//! `watch`: prints events as they come, or runs a command for each.
//!
//! What stands behind `--` is that command. The key can come from `ETCDCTL_WATCH_KEY` and
//! `ETCDCTL_WATCH_RANGE_END` instead of the arguments. With `--interactive`, each line of standard input adds a watch
//! (`watch key --prefix`) or asks how far they all are (`progress`).

use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::Stdio;

use api::{etcdserverpb as pb, mvccpb};
use bytes::Bytes;
use prost::Message;
use tokio::process::Command as Process;
use tokio::sync::mpsc;

use crate::client::watches::{Delivery, Watches};
use crate::client::{CallError, Client};
use crate::commands::{ETCDCTL, ROOT};
use crate::exit::{Exit, Outcome, code};
use crate::print::json::Object;
use crate::print::{Forms, Missing, fields, simple};
use crate::shell::Shell;
use cli::find::child_called;
use cli::parse::Values;
use cli::text::quote::{quoted, words};
use cli::{Arg, parse};

const TOO_FEW: &str = "bad number of arguments";
const KEY_TWICE: &str = "bad number of arguments (found conflicting environment key)";
const NO_COMMAND: &str = "bad number of arguments (found separator --, but no commands)";

/// Lines of standard input that may wait to be handled.
const MAX_WAITING_LINES: usize = 16;

/// What one watch is about.
struct Watch {
    request: pb::WatchCreateRequest,
    /// The command to run for each event; empty for none.
    command: Vec<Arg>,
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    let (key, end) = variables(shell)?;
    if shell.values.switch("interactive") {
        return interactive(shell, key, end).await;
    }
    let line = shell.line.clone();
    let watch = read(&shell.values, &shell.args, &line, &key, &end).map_err(Exit::bad_args)?;
    let client = shell.client().await?;
    let mut watches = Watches::new(&client);
    watches.create(watch.request.clone());
    deliver(shell, &mut watches, &watch).await?;
    Err(Exit::new(code::INTERRUPTED, "watch is canceled by the server"))
}

/// Prints what changes in a range, from a revision on: `get --watch`.
///
/// # Errors
///
/// The server canceled the watch, or the output is closed.
pub(crate) async fn follow(
    shell: &mut Shell,
    client: &Client,
    range: &pb::RangeRequest,
    revision: i64,
) -> Outcome {
    let request = pb::WatchCreateRequest {
        key: range.key.clone(),
        range_end: range.range_end.clone(),
        start_revision: revision,
        ..Default::default()
    };
    let mut watches = Watches::new(client);
    watches.create(request.clone());
    deliver(shell, &mut watches, &Watch { request, command: Vec::new() }).await?;
    Err(Exit::new(code::INTERRUPTED, "watch is canceled by the server"))
}

/// Handles the deliveries of one watch until it ends.
async fn deliver(shell: &mut Shell, watches: &mut Watches<'_>, watch: &Watch) -> Outcome {
    loop {
        match watches.next().await {
            Ok(Delivery::Response(_, response)) => handle(shell, &response, &watch.command).await?,
            Ok(Delivery::Ended(response)) => return ended(shell, response),
            Err(error) => return lost(shell, &error),
        }
    }
}

/// The key and the end that the environment gives.
fn variables(shell: &Shell) -> Result<(Vec<u8>, Vec<u8>), Exit> {
    let key = shell.variable("ETCDCTL_WATCH_KEY").as_bytes().to_vec();
    let end = shell.variable("ETCDCTL_WATCH_RANGE_END").as_bytes().to_vec();
    if key.is_empty() && !end.is_empty() {
        let end = quoted(&end);
        return Err(Exit::bad_args(format!(
            "ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END={end}"
        )));
    }
    Ok((key, end))
}

/// A watch from flags and arguments; `line` still has the `--`.
fn read(values: &Values, args: &[Arg], line: &[Arg], key: &[u8], end: &[u8]) -> Result<Watch, &'static str> {
    let separator = line.iter().position(|word| word == b"--");
    let command = separator.map(|at| line[at + 1..].to_vec()).unwrap_or_default();
    if separator.is_some() && command.is_empty() {
        return Err(NO_COMMAND);
    }
    let given = &args[..args.len().saturating_sub(command.len())];
    if !given.is_empty() && !key.is_empty() {
        return Err(KEY_TWICE);
    }
    let mut range = given.to_vec();
    if !key.is_empty() {
        range = [key, end].into_iter().filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
    }
    let Some(key) = range.first() else { return Err(TOO_FEW) };
    let prefix = values.switch("prefix");
    let range_end = match range.as_slice() {
        [_, _] if prefix => return Err("`range_end` and `--prefix` are mutually exclusive"),
        [_, end] => Bytes::from(end.clone()),
        [key, ..] if prefix => api::prefix_end(key),
        _ => Bytes::new(),
    };
    let key = if prefix && key.is_empty() { Bytes::from_static(b"\0") } else { Bytes::from(key.clone()) };
    let request = pb::WatchCreateRequest {
        key,
        range_end,
        start_revision: values.int("rev"),
        progress_notify: values.switch("progress-notify"),
        prev_kv: values.switch("prev-kv"),
        ..Default::default()
    };
    Ok(Watch { request, command })
}

async fn interactive(shell: &mut Shell, key: Vec<u8>, end: Vec<u8>) -> Outcome {
    let client = shell.client().await?;
    let mut lines = lines(shell);
    let mut added = AddedWatches::new(&client);
    loop {
        let delivery = tokio::select! {
            biased;
            line = lines.recv() => {
                let line = line.ok_or_else(|| {
                    Exit::new(code::INVALID_INPUT, "error reading watch request line: EOF")
                })?;
                if let Some(watch) = one_line(shell, &line, &key, &end, &mut added.watches)? {
                    added.add(watch);
                }
                continue;
            }
            delivery = added.watches.next() => delivery,
        };
        match delivery {
            Ok(Delivery::Response(id, response)) => {
                handle(shell, &response, added.command(id)).await?;
            }
            Ok(Delivery::Ended(response)) => ended(shell, response)?,
            Err(error) => {
                lost(shell, &error)?;
                added = AddedWatches::new(&client);
            }
        }
    }
}

/// Watches that lines of standard input added, on one stream, and their commands. After the stream is lost for good,
/// others begin on a new one.
struct AddedWatches<'c> {
    watches: Watches<'c>,
    commands: BTreeMap<i64, Vec<Arg>>,
}

impl<'c> AddedWatches<'c> {
    fn new(client: &'c Client) -> Self {
        Self { watches: Watches::new(client), commands: BTreeMap::new() }
    }

    fn add(&mut self, watch: Watch) {
        let id = self.watches.create(watch.request);
        self.commands.insert(id, watch.command);
    }

    /// The command of a watch; empty if it has none.
    fn command(&self, watch: i64) -> &[Arg] {
        self.commands.get(&watch).map_or(&[], Vec::as_slice)
    }
}

/// The lines of standard input, read in a thread of their own.
fn lines(shell: &mut Shell) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel(MAX_WAITING_LINES);
    let mut input = std::mem::replace(&mut shell.streams.input, Box::new(std::io::empty()));
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) && line.ends_with(b"\n") {
            line.pop();
            if send.blocking_send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    receive
}

/// What one line asks for: a watch to add, or nothing more.
fn one_line(
    shell: &mut Shell,
    line: &[u8],
    key: &[u8],
    end: &[u8],
    watches: &mut Watches<'_>,
) -> Result<Option<Watch>, Exit> {
    let text = String::from_utf8_lossy(line).into_owned();
    let line = words(line).map_err(|why| Exit::new(code::INVALID_INPUT, why))?;
    match line.first().map(Vec::as_slice) {
        None => shell.complain(format!("Invalid command: {text} (watch and progress supported)")),
        Some(b"progress") => watches.ask_for_progress(),
        Some(b"watch") if line.len() < 2 && key.is_empty() => {
            shell.complain(format!("Invalid command {text} (command type or key is not provided)"));
        }
        Some(b"watch") => {
            let Some(command) = child_called(ETCDCTL, &ROOT, b"watch") else { return Ok(None) };
            let parsed = parse::parse(ETCDCTL, &[command], &line[1..]).map_err(Exit::bad_args)?;
            return match read(&parsed.values, &parsed.args, &line, key, end) {
                Ok(watch) => Ok(Some(watch)),
                Err(why @ (TOO_FEW | KEY_TWICE | NO_COMMAND)) => Err(Exit::bad_args(why)),
                Err(why) => {
                    shell.complain(format!("Invalid command {text} ({why})"));
                    Ok(None)
                }
            };
        }
        Some(_) => shell.complain(format!("Invalid command {text} (only support watch)")),
    }
    Ok(None)
}

/// Prints a response, and runs the command for each of its events.
async fn handle(shell: &mut Shell, response: &pb::WatchResponse, command: &[Arg]) -> Outcome {
    let revision = response.header.as_ref().map_or(0, |header| header.revision);
    if response.events.is_empty() && revision != 0 {
        shell.say(format!("progress notify: {revision}"))?;
    }
    print(shell, response)?;
    if command.is_empty() {
        return Ok(());
    }
    for event in &response.events {
        run_command(shell, command, revision, event).await?;
    }
    Ok(())
}

fn print(shell: &mut Shell, response: &pb::WatchResponse) -> Outcome {
    let view = shell.view;
    let forms = Forms {
        simple: || {
            let mut out = Vec::new();
            simple::events(&mut out, response, view);
            out
        },
        fields: Some(|| {
            let mut out = Vec::new();
            fields::events(&mut out, response, view);
            out
        }),
        json: || json(response).into_bytes(),
        protobuf: Some(|| {
            // etcdctl leaves out the fields that its library does not hand on.
            let known = pb::WatchResponse { watch_id: 0, cancel_reason: String::new(), ..response.clone() };
            known.encode_to_vec()
        }),
        table: None::<Missing>,
    };
    shell.print(&forms.bytes(view.format)?)
}

/// The response as etcd's library hands it on.
fn json(response: &pb::WatchResponse) -> String {
    let mut text = String::new();
    let mut object = Object::new(&mut text);
    object.always("Header", &response.header);
    if response.canceled {
        object.raw("Events", "null");
    } else {
        object.always("Events", &response.events);
    }
    object
        .always("CompactRevision", &response.compact_revision)
        .always("Canceled", &response.canceled)
        .always("Created", &false)
        .always("CancelReason", &String::new())
        .end();
    text.push('\n');
    text
}

/// Says why a watch has ended, if the server said it.
fn ended(shell: &mut Shell, response: Option<pb::WatchResponse>) -> Outcome {
    let Some(mut response) = response else { return Ok(()) };
    if response.compact_revision != 0 {
        shell.complain("watch was canceled (etcdserver: mvcc: required revision has been compacted)");
    } else {
        shell.complain(format!("watch was canceled ({})", response.cancel_reason));
        response.header = Some(pb::ResponseHeader::default());
    }
    print(shell, &response)
}

/// Says why the stream could not go on.
fn lost(shell: &mut Shell, error: &CallError) -> Outcome {
    shell.complain(format!("watch was canceled ({error})"));
    let header = Some(pb::ResponseHeader::default());
    print(shell, &pb::WatchResponse { header, canceled: true, ..Default::default() })
}

async fn run_command(shell: &mut Shell, command: &[Arg], revision: i64, event: &mvccpb::Event) -> Outcome {
    let kv = event.kv.clone().unwrap_or_default();
    let mut process = process(command);
    process
        .env("ETCD_WATCH_REVISION", revision.to_string())
        .env("ETCD_WATCH_EVENT_TYPE", quoted(simple::event_kind(event).as_bytes()))
        .env("ETCD_WATCH_KEY", quoted(&kv.key))
        .env("ETCD_WATCH_VALUE", quoted(&kv.value))
        .stdin(Stdio::null());
    let failed = match process.status().await {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => end_of(status),
        Err(error) => not_started(&command[0], &error),
    };
    let names: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    shell.complain(format!("command [{}] error ({failed})", names.join(" ")));
    Err(Exit::silent(code::ERROR))
}

/// A process from the words of a command.
pub(super) fn process(command: &[Arg]) -> Process {
    use std::os::unix::ffi::OsStrExt;
    let words: Vec<&std::ffi::OsStr> = command.iter().map(|word| std::ffi::OsStr::from_bytes(word)).collect();
    let mut process = Process::new(words.first().copied().unwrap_or_default());
    process.args(words.iter().skip(1));
    process
}

/// How a process ended, in Go's words.
pub(super) fn end_of(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal: {signal}"),
        _ => status.to_string(),
    }
}

/// Why a process did not start, in Go's words.
pub(super) fn not_started(name: &[u8], error: &std::io::Error) -> String {
    let name = quoted(name);
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("exec: {name}: executable file not found in $PATH"),
        _ => format!("fork/exec {name}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> (Values, Vec<Arg>, Vec<Arg>) {
        let words: Vec<Arg> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let command = child_called(ETCDCTL, &ROOT, b"watch").expect("it exists");
        let parsed = parse::parse(ETCDCTL, &[command], &words).unwrap_or_else(|why| panic!("{why}"));
        (parsed.values, parsed.args, words)
    }

    #[test]
    fn what_stands_behind_two_dashes_is_the_command() {
        let (values, args, words) = line("foo --rev 3 -- echo foo");
        let watch = read(&values, &args, &words, b"", b"").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(watch.command, [b"echo".to_vec(), b"foo".to_vec()]);
        assert_eq!((watch.request.key.as_ref(), watch.request.start_revision), (&b"foo"[..], 3));
    }

    #[test]
    fn a_key_comes_from_the_line_or_from_the_environment() {
        let (values, args, words) = line("--prefix -- echo");
        let watch = read(&values, &args, &words, b"foo", b"").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(
            (watch.request.key.as_ref(), watch.request.range_end.as_ref()),
            (&b"foo"[..], &b"fop"[..])
        );
        assert_eq!(read(&values, &args, &words, b"", b"").err(), Some(TOO_FEW));
        let (values, args, words) = line("foo");
        assert_eq!(read(&values, &args, &words, b"foo", b"").err(), Some(KEY_TWICE));
        let (values, args, words) = line("foo --");
        assert_eq!(read(&values, &args, &words, b"", b"").err(), Some(NO_COMMAND));
    }

    #[test]
    fn watches_after_a_lost_stream_have_commands_of_their_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(Client::open(crate::client::tests::options("127.0.0.1:1")));
        let client = client.expect("it connects with its first call");
        let watch =
            |command: &str| Watch { request: Default::default(), command: vec![command.as_bytes().to_vec()] };
        let mut added = AddedWatches::new(&client);
        added.add(watch("first"));
        added.add(watch("second"));
        assert_eq!(
            (added.command(1), added.command(2)),
            (&[b"first".to_vec()][..], &[b"second".to_vec()][..])
        );
        // As `interactive` does when the stream is lost.
        added = AddedWatches::new(&client);
        added.add(watch("third"));
        assert_eq!((added.command(1), added.command(2)), (&[b"third".to_vec()][..], &[][..]));
    }
}
