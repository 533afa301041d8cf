//! Feature gates against etcd's list and rules.

use super::*;

#[test]
fn the_list_is_etcds() {
    let contract = include_str!("../../../tests/contract/feature-gates.txt");
    assert_eq!(describe(), contract.lines().collect::<Vec<_>>());
}

#[test]
fn a_named_gate_outranks_its_stage() {
    let gates = FeatureGates::parse("LeaseCheckpoint=false,AllAlpha=true, AllBeta=0").expect("gates");
    assert!(!gates.enabled("LeaseCheckpoint"));
    assert!(gates.enabled("InitialCorruptCheck"));
    assert!(!gates.enabled("FastLeaseKeepAlive"));
    assert!(!gates.enabled("AllAlpha"));
}

#[test]
fn errors_are_etcds() {
    let error = |text| FeatureGates::parse(text).expect_err(text);
    assert_eq!(error("Nonsense=true"), "unrecognized feature gate: Nonsense");
    assert_eq!(error("LeaseCheckpoint"), "missing bool value for LeaseCheckpoint");
    assert_eq!(error("LeaseCheckpoint=x"), "invalid value of LeaseCheckpoint=x, err: not a bool");
}
