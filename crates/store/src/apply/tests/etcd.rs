//! The same requests, answered by etcd 3.7.3.
//!
//! `testdata/etcd_answers.txt` has a random request a line, as `kind hex = hex`: the request's protobuf bytes
//! and those of the response that etcd's `server/etcdserver/txn`, `mvcc` and `lease` packages gave to it in
//! this order, or the error they gave as `! text`.

use api::Error;
use api::etcdserverpb as pb;
use prost::Message;

use crate::testing::TestStore;
use crate::{Command, Response, resolve, resolve_range};

fn unhex(text: &str) -> bytes::Bytes {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn request<M: Message + Default>(hex: &str) -> M {
    M::decode(unhex(hex)).expect("a request")
}

/// Carries a request out; returns the response's bytes.
fn answer(bench: &mut TestStore, kind: &str, hex: &str) -> Result<Vec<u8>, Error> {
    let command = match kind {
        "range" => {
            let reply = bench.reader.range(&request(hex))?;
            return Ok(resolve_range(&reply, &*bench.values).expect("no value is damaged").encode_to_vec());
        }
        "put" => Command::Put(request(hex)),
        "delete" => Command::DeleteRange(request(hex)),
        "txn" => Command::Txn(request(hex)),
        "compact" => Command::Compaction(request(hex)),
        "grant" => Command::LeaseGrant(request(hex)),
        "revoke" => Command::LeaseRevoke { request: request(hex), expiry_term: None },
        other => panic!("no such kind: {other}"),
    };
    let reply = bench.outcome(command)?;
    Ok(match resolve(&reply, &*bench.values).expect("no value is damaged") {
        Response::Put(response) => response.encode_to_vec(),
        Response::DeleteRange(response) => response.encode_to_vec(),
        Response::Txn(response) => response.encode_to_vec(),
        // Of these, etcd's packages give nothing that could be compared.
        Response::Compaction(_) | Response::LeaseGrant(_) | Response::LeaseRevoke(_) => Vec::new(),
        other => panic!("unexpected: {other:?}"),
    })
}

/// etcd's packages have texts of their own for what its services then answer with these.
fn error(text: &str) -> Error {
    match text {
        "etcdserver: key not found" => Error::KeyNotFound,
        "lease already exists" => Error::LeaseExists,
        "lease not found" => Error::LeaseNotFound,
        "mvcc: required revision has been compacted" => Error::Compacted,
        "mvcc: required revision is a future revision" => Error::FutureRevision,
        other => panic!("unexpected: {other}"),
    }
}

fn decoded(kind: &str, bytes: &[u8]) -> String {
    match kind {
        "range" => format!("{:?}", pb::RangeResponse::decode(bytes)),
        "put" => format!("{:?}", pb::PutResponse::decode(bytes)),
        "delete" => format!("{:?}", pb::DeleteRangeResponse::decode(bytes)),
        "txn" => format!("{:?}", pb::TxnResponse::decode(bytes)),
        _ => format!("{bytes:?}"),
    }
}

#[test]
fn answers_are_those_of_etcd() {
    let mut bench = TestStore::new();
    for (number, line) in include_str!("../../../testdata/etcd_answers.txt").lines().enumerate() {
        let (question, expected) = line.split_once(" =").expect("a line has an answer");
        let (kind, hex) = question.split_once(' ').unwrap_or((question, ""));
        let answer = answer(&mut bench, kind, hex).map(|bytes| decoded(kind, &bytes));
        let expected = match expected.trim().strip_prefix("! ") {
            Some(text) => Err(error(text)),
            None => Ok(decoded(kind, &unhex(expected.trim()))),
        };
        assert_eq!(answer, expected, "line {}: {kind} {hex}", number + 1);
        if number % 7 == 0 {
            bench.store.purge_step(3);
            bench.store.check_all();
        }
    }
}
