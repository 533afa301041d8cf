//! `put`, `get`, `del`, `compaction`.

use std::io::Read;
use std::time::Duration;

use api::etcdserverpb as pb;
use api::methods;
use tokio::time::Instant;

use super::ranges;
use crate::client::{CallError, Client};
use crate::exit::{Exit, Outcome, code};
use crate::print::{Format, fields, simple};
use crate::shell::Shell;
use crate::show;
use cli::text::quote::quoted;

/// Time in which a range can still be kept from being deleted.
const DELETE_DELAY: Duration = Duration::from_secs(2);

pub(super) async fn put(shell: &mut Shell) -> Outcome {
    let input = &mut shell.streams.input;
    let request = ranges::put(&shell.values, &shell.args, || {
        let mut value = Vec::new();
        input.read_to_end(&mut value).ok().map(|_| value)
    })?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let response: pb::PutResponse = client.write(methods::KV_PUT, &request, deadline).await?;
    let view = shell.view;
    show::message(shell, &response, |out| simple::put(out, &response, view), Some(fields::put))
}

pub(super) async fn get(shell: &mut Shell) -> Outcome {
    let request = ranges::range(&shell.values, &shell.args)?;
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let response = if shell.values.switch("stream") {
        read_stream(&client, &request, deadline).await?
    } else {
        client.read(methods::KV_RANGE, &request, deadline).await?
    };
    if request.count_only && shell.view.format != Format::Fields {
        return Err(Exit::bad_args("--count-only is only for `--write-out=fields`"));
    }
    if shell.values.switch("print-value-only") {
        if shell.view.format != Format::Simple {
            return Err(Exit::bad_args("print-value-only is only for `--write-out=simple`"));
        }
        shell.view.value_only = true;
    }
    print_range(shell, &response)?;
    if shell.values.switch("watch") {
        let next = response.header.map_or(0, |header| header.revision) + 1;
        return super::watch::follow(shell, &client, &request, next).await;
    }
    Ok(())
}

/// Prints a range.
///
/// # Errors
///
/// The form does not exist, or the output is closed.
pub(super) fn print_range(shell: &mut Shell, response: &pb::RangeResponse) -> Outcome {
    let view = shell.view;
    show::message(shell, response, |out| simple::range(out, response, view), Some(fields::range))
}

/// A range that the server sends in parts.
async fn read_stream(
    client: &Client,
    request: &pb::RangeRequest,
    deadline: Option<Instant>,
) -> Result<pb::RangeResponse, CallError> {
    let read = async {
        let mut stream = client.stream(methods::KV_RANGE_STREAM, deadline).await?;
        stream.send(request, true)?;
        let mut whole = pb::RangeResponse::default();
        while let Some(part) = stream.next::<pb::RangeStreamResponse>().await? {
            let part = part.range_response.unwrap_or_default();
            whole.header = part.header.or(whole.header);
            whole.kvs.extend(part.kvs);
            whole.more |= part.more;
            whole.count = if part.count == 0 { whole.count } else { part.count };
        }
        Ok(whole)
    };
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, read).await.unwrap_or(Err(CallError::Deadline)),
        None => read.await,
    }
}

/// Reads a range page by page at one revision, and hands each page over. Returns the revision.
///
/// # Errors
///
/// A call failed.
pub(crate) async fn read_range(
    client: &Client,
    request: pb::RangeRequest,
    mut page: impl AsyncFnMut(Vec<api::mvccpb::KeyValue>) -> Result<(), CallError>,
) -> Result<i64, CallError> {
    let mut request = request;
    loop {
        let response: pb::RangeResponse = client.read(methods::KV_RANGE, &request, None).await?;
        let revision = response.header.map_or(0, |header| header.revision);
        if request.revision == 0 {
            request.revision = revision;
        }
        let last = response.kvs.last().map(|kv| kv.key.clone());
        page(response.kvs).await?;
        match last {
            Some(last) if response.more => request.key = [&last[..], b"\0"].concat().into(),
            _ => return Ok(request.revision),
        }
    }
}

pub(super) async fn delete(shell: &mut Shell) -> Outcome {
    let request = ranges::delete(&shell.values, &shell.args)?;
    if let [from, to] = shell.args.as_slice()
        && !shell.values.switch("range")
    {
        let (from, to) = (quoted(from), quoted(to));
        shell.complain(format!(
            "Warning: Keys between {from} and {to} will be deleted. Please interrupt the command within next 2 \
             seconds to cancel. You can provide `--range` flag to avoid the delay."
        ));
        tokio::time::sleep(DELETE_DELAY).await;
    }
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let response: pb::DeleteRangeResponse =
        client.write(methods::KV_DELETE_RANGE, &request, deadline).await?;
    let view = shell.view;
    show::message(shell, &response, |out| simple::delete(out, &response, view), Some(fields::delete))
}

pub(super) async fn compact(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("compaction command needs 1 argument"));
    }
    let revision = cli::values::parse_int(&shell.arg(0), 10).map_err(|why| Exit::new(code::ERROR, why))?;
    let request = pb::CompactionRequest { revision, physical: shell.values.switch("physical") };
    let client = shell.client().await?;
    let deadline = shell.deadline();
    let _: pb::CompactionResponse = client.write(methods::KV_COMPACT, &request, deadline).await?;
    shell.say(format!("compacted revision {revision}"))
}
