//! The error table against the contract.

use api::{Code, Error};

const CONTRACT: &str = include_str!("contract/errors.tsv");

fn contract() -> Vec<(&'static str, &'static str)> {
    let lines = CONTRACT.lines().filter(|line| !line.starts_with('#'));
    let mut rows: Vec<_> = lines.filter_map(|line| line.split_once('\t')).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn the_table_is_the_contract() {
    let table = &Error::ALL[..Error::COUNT_OF_TABLE];
    let mut rows: Vec<_> = table.iter().map(|error| (error.code().name(), error.message())).collect();
    rows.sort_unstable();
    assert!(!rows.is_empty());
    assert_eq!(rows, contract());
}

#[test]
fn every_text_leads_back_to_its_error() {
    for &error in Error::ALL {
        assert_eq!(Error::from_message(error.message()), Some(error));
    }
    assert_eq!(Error::from_message("etcdserver: all is well"), None);
}

#[test]
fn what_is_not_in_the_table_is_no_table_code() {
    let own = [Error::NotTaken];
    for &error in Error::ALL[Error::COUNT_OF_TABLE..].iter().filter(|error| !own.contains(error)) {
        assert!(matches!(error.code(), Code::Unknown | Code::Unimplemented), "{error}");
    }
}

#[test]
fn texts_are_those_of_go() {
    assert_eq!(Error::EmptyKey.to_string(), "etcdserver: key is not provided");
    let text = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    assert_eq!(Error::PermissionDenied.status_text(), text);
}
