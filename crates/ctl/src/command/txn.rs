//! `txn`: reads conditions and requests from standard input, each part up to an empty line.

use std::io::BufRead;

use api::etcdserverpb as pb;
use api::methods;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::request_op::Request;

use super::ranges;
use crate::commands::{ETCDCTL, ROOT};
use crate::exit::{Exit, Outcome, code};
use crate::print::{fields, simple};
use crate::shell::Shell;
use crate::show;
use cli::find::child_called;
use cli::parse;
use cli::text::quote::{quoted, unquote, words};
use cli::values::parse_int;

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if !shell.args.is_empty() {
        return Err(Exit::bad_args("txn command does not accept argument"));
    }
    let client = shell.client().await?;
    prompt(shell, "compares:")?;
    let compare = part(shell, |line| condition(line).map_err(invalid))?;
    prompt(shell, "success requests (get, put, del):")?;
    let success = part(shell, request)?;
    prompt(shell, "failure requests (get, put, del):")?;
    let failure = part(shell, request)?;
    let request = pb::TxnRequest { compare, success, failure };
    let response: pb::TxnResponse = client.write(methods::KV_TXN, &request, None).await?;
    let view = shell.view;
    show::message(shell, &response, |out| simple::txn(out, &response, view), Some(fields::txn))
}

fn invalid(message: String) -> Exit {
    Exit::new(code::INVALID_INPUT, message)
}

fn prompt(shell: &mut Shell, text: &str) -> Outcome {
    if shell.values.switch("interactive") { shell.say(text) } else { Ok(()) }
}

/// The lines up to an empty one.
fn part<T>(shell: &mut Shell, read: impl Fn(&[u8]) -> Result<T, Exit>) -> Result<Vec<T>, Exit> {
    let mut parts = Vec::new();
    loop {
        let mut line = Vec::new();
        shell.streams.input.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Err(invalid("EOF".to_owned()));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(parts);
        }
        parts.push(read(line)?);
    }
}

/// A condition: `mod("key") > "0"`.
fn condition(line: &[u8]) -> Result<pb::Compare, String> {
    let text = String::from_utf8_lossy(line).into_owned();
    let malformed = || format!("malformed comparison: {text}");
    let open = line.iter().position(|byte| *byte == b'(').ok_or_else(malformed)?;
    let target = String::from_utf8_lossy(&line[..open]).into_owned();
    let read = |rest| {
        let (key, rest) = unquote(rest)?;
        let rest = rest.strip_prefix(b")")?.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let (value, _) = unquote(rest[end..].trim_ascii_start())?;
        Some((key, String::from_utf8_lossy(&rest[..end]).into_owned(), value))
    };
    let Some((key, operator, value)) = read(&line[open + 1..]) else {
        return Err(format!("malformed comparison: {text}; got {target}(\"\")  \"\""));
    };
    let number = || {
        let value = String::from_utf8_lossy(&value).into_owned();
        parse_int(&value, 10).map_err(|_| format!("invalid txn compare request: {text}"))
    };
    let (target, union) = match target.as_str() {
        "ver" | "version" => (CompareTarget::Version, TargetUnion::Version(number()?)),
        "c" | "create" => (CompareTarget::Create, TargetUnion::CreateRevision(number()?)),
        "m" | "mod" => (CompareTarget::Mod, TargetUnion::ModRevision(number()?)),
        "val" | "value" => (CompareTarget::Value, TargetUnion::Value(value.into())),
        "lease" => {
            let id = parse_int(&String::from_utf8_lossy(&value), 16);
            let id = id.map_err(|_| format!("invalid txn compare request: {text}"))?;
            (CompareTarget::Lease, TargetUnion::Lease(id))
        }
        other => return Err(format!("malformed comparison: {text} (unknown target {other})")),
    };
    let result = match operator.as_str() {
        "=" => CompareResult::Equal,
        "!=" => CompareResult::NotEqual,
        ">" => CompareResult::Greater,
        "<" => CompareResult::Less,
        other => {
            let other = quoted(other.as_bytes());
            return Err(format!(
                "malformed comparison: {text} (unknown operator {other}: use =, !=, < or >)"
            ));
        }
    };
    Ok(pb::Compare {
        result: result.into(),
        target: target.into(),
        key: key.into(),
        target_union: Some(union),
        ..Default::default()
    })
}

/// A request: a line of `get`, `put` or `del`.
fn request(line: &[u8]) -> Result<pb::RequestOp, Exit> {
    let text = String::from_utf8_lossy(line).into_owned();
    let wrong = || invalid(format!("invalid txn request: {text}"));
    let line = words(line).map_err(invalid)?;
    if line.len() < 2 {
        return Err(invalid(format!("invalid txn compare request: {text}")));
    }
    let program = ETCDCTL;
    let command = child_called(program, &ROOT, &line[0]).ok_or_else(wrong)?;
    let parsed = parse::parse(program, &[command], &line[1..]).map_err(|_| wrong())?;
    let request = match command.name() {
        "get" => Request::RequestRange(ranges::range(&parsed.values, &parsed.args)?),
        "put" => Request::RequestPut(ranges::put(&parsed.values, &parsed.args, || None)?),
        "del" => Request::RequestDeleteRange(ranges::delete(&parsed.values, &parsed.args)?),
        _ => return Err(wrong()),
    };
    Ok(pb::RequestOp { request: Some(request) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_a_target_a_key_an_operator_and_a_value() {
        let read = condition(br#"val("a\nb") != "x y""#).expect("it is one");
        assert_eq!(read.key.as_ref(), b"a\nb");
        assert_eq!(read.result, i32::from(CompareResult::NotEqual));
        assert_eq!(read.target_union, Some(TargetUnion::Value("x y".into())));
        assert!(condition(br#"mod("a") >= "1""#).is_err_and(|message| message.contains("unknown operator")));
        assert!(condition(br#"mod("a") > "one""#).is_err());
        assert!(condition(b"mod(a) > 1").is_err());
        assert!(
            condition(br#"size("a") > "1""#).is_err_and(|message| message.contains("unknown target size"))
        );
    }

    #[test]
    fn a_request_is_a_line_of_get_put_or_del() {
        let read = request(br#"put 'a b' "c\td" --prev-kv"#).expect("it is one").request;
        let Some(Request::RequestPut(put)) = read else { panic!("it is a put: {read:?}") };
        assert_eq!((put.key.as_ref(), put.value.as_ref(), put.prev_kv), (&b"a b"[..], &b"c\td"[..], true));
        assert!(request(b"watch a").is_err());
        assert!(request(b"get").is_err());
        assert!(request(b"get a --nonsense").is_err());
    }
}
