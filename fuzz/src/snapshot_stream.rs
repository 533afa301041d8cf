//! A new member is sent a snapshot in which every byte may be anything; if it takes it, it goes on with that state.
//!
//! The script is the sender, the header the stream is opened with, and its bytes as they arrive.

use bytes::Bytes;
use member::batch::CommandKind;
use member::{Answer, Input};
use prost::Message;

use crate::input::script::Script;
use crate::input::state_hash::with_found_hash;
use crate::peer_input::member;

/// Carries out a script, and again with the hash its state has.
pub fn run(data: &[u8]) {
    if let Err(refusal) = receive(data)
        && let Some(repaired) = with_found_hash(data, &refusal)
    {
        drop(receive(&repaired));
    }
}

fn receive(data: &[u8]) -> Result<(), String> {
    let mut script = Script::new(data);
    let (Some(from), Some(header)) = (script.byte(), script.bytes()) else {
        return Ok(());
    };
    let mut fixture = member();
    let from = u64::from(from);
    let header = Bytes::copy_from_slice(header);
    let token = fixture.ask(|token| Input::SnapshotOffered { token, from, header });
    let Some(Answer::SnapshotFrom(mut receiver)) = fixture.take_answer(token) else {
        return Ok(());
    };
    let mut taken = Ok(());
    while let Some(bytes) = script.bytes().filter(|bytes| !bytes.is_empty() && taken.is_ok()) {
        taken = receiver.take(bytes);
    }
    match taken {
        Ok(()) => drop(fixture.ask(|token| Input::SnapshotWhole { token, receiver })),
        Err(_) => fixture.give(Input::SnapshotBroken(receiver)),
    }
    let put = api::etcdserverpb::PutRequest { key: "a".into(), value: "b".into(), ..Default::default() };
    fixture.propose(CommandKind::Put, put.encode_to_vec().into());
    (0..4).for_each(|_| fixture.wait(1000));
    taken
}
