//! Transactions and what etcd says of them.
//!
//! The table was recorded from the checks of etcd 3.7.3 with random transactions: the limit of
//! operations, the request in hexadecimal, and the error text, or `-` for none.

use api::etcdserverpb::TxnRequest;
use api::{Error, validate};
use prost::Message;

const RECORDED: &str = include_str!("contract/txn-verdicts.tsv");

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digit = |letter: u8| char::from(letter).to_digit(16).expect("a hexadecimal digit") as u8;
    hexadecimal.as_bytes().chunks(2).map(|pair| (digit(pair[0]) << 4) | digit(pair[1])).collect()
}

#[test]
fn verdicts_are_those_of_etcd() {
    let rows = RECORDED.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let [max_txn_ops, request, verdict] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns: {row}");
        };
        let request = TxnRequest::decode(bytes_of(request).as_slice()).expect("etcd's own encoding");
        let max_txn_ops = max_txn_ops.parse().expect("a number");
        let expected = match verdict {
            "-" => Ok(()),
            text => Err(Error::from_message(text).expect("an error of the table")),
        };
        assert_eq!(validate::txn(&request, max_txn_ops), expected, "{request:?}");
    }
}
