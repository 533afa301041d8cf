//! A stream holds the state of when it was pinned, goes on where its receiver stands, and stops at damage.

use log::file_of;

use super::{FOLLOWER, LogAndStore, filled, outgoing, rest_of, stream};
use crate::snapshot::{RESUME_BYTES, SentSnapshot};

#[test]
fn a_stream_holds_the_state_of_when_it_was_pinned() {
    let mut state = filled();
    let expected = stream(&mut state);
    let mut outgoing = outgoing(&mut state);
    let old = file_of(state.reference("key19").value.address);
    for number in 0..20 {
        state.put(&format!("key{number:02}"), "new");
    }
    state.end_segment();
    state.drop_history();
    state.checkpoint();
    assert!(state.has_file(old), "the stream reads it");
    assert_eq!(rest_of(&mut outgoing), expected);
    assert_eq!(outgoing.sent(), SentSnapshot { peer: FOLLOWER, sequence: 1 });
}

#[test]
fn a_broken_stream_goes_on_where_its_receiver_stands() {
    let mut state = filled();
    let expected = stream(&mut state);
    let mut outgoing = outgoing(&mut state);
    let (header, first) = (outgoing.header(), outgoing.next_bytes());
    let first = first.expect("the values are intact").expect("it is not empty").len() as u64;
    assert!(!outgoing.resume(first + 1), "no receiver has more than was read");
    for offset in [0, 3, first, first + 1, expected.len() as u64 / 2, expected.len() as u64] {
        assert!(outgoing.resume(offset));
        assert_eq!(rest_of(&mut outgoing), expected[offset as usize..], "from byte {offset} on");
    }
    assert_eq!(outgoing.header(), header);
}

#[test]
fn the_newest_bytes_are_kept_and_the_others_are_not() {
    let mut state = LogAndStore::new(&[1]);
    (0..RESUME_BYTES >> 20).for_each(|number| state.put(&format!("key{number:02}"), vec![1; 1 << 20]));
    state.put("key", vec![2; 1 << 20]);
    let mut outgoing = outgoing(&mut state);
    let bytes = rest_of(&mut outgoing).len();
    assert!(!outgoing.resume(0));
    let oldest = bytes - RESUME_BYTES;
    assert!(outgoing.resume(oldest as u64));
    assert_eq!(rest_of(&mut outgoing).len(), RESUME_BYTES);
}

#[test]
fn a_damaged_value_ends_the_stream_and_is_named() {
    let mut state = filled();
    let address = state.reference("key11").value.address;
    state.damage(address);
    let mut outgoing = outgoing(&mut state);
    let error = loop {
        match outgoing.next_bytes() {
            Ok(bytes) => assert!(bytes.is_some(), "a stream without the value must not end well"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.damaged, Some((address, Some("key11".into()))));
}
