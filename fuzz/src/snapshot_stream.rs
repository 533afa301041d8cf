//! A new member is sent a snapshot in which every byte may be anything; if it takes it, it goes on with that state.
//!
//! The script is the sender, the header the stream is opened with, and its bytes as they arrive.

use bytes::Bytes;
use member::batch::Kind;
use member::{Answer, Input};
use prost::Message;

use crate::mend::repaired;
use crate::peer_input::member;
use crate::script::Script;

/// Carries out a script, and again with the hash its state has.
pub fn run(data: &[u8]) {
    if let Err(refusal) = receive(data)
        && let Some(repaired) = repaired(data, &refusal)
    {
        drop(receive(&repaired));
    }
}

fn receive(data: &[u8]) -> Result<(), String> {
    let mut script = Script::new(data);
    let (Some(from), Some(header)) = (script.byte(), script.piece()) else {
        return Ok(());
    };
    let mut rig = member();
    let from = u64::from(from);
    let header = Bytes::copy_from_slice(header);
    let token = rig.ask(|token| Input::SnapshotOffered { token, from, header });
    let Some(Answer::SnapshotFrom(mut receiver)) = rig.take_answer(token) else {
        return Ok(());
    };
    let mut taken = Ok(());
    while let Some(piece) = script.piece().filter(|piece| !piece.is_empty() && taken.is_ok()) {
        taken = receiver.take(piece);
    }
    match taken {
        Ok(()) => drop(rig.ask(|token| Input::SnapshotWhole { token, receiver })),
        Err(_) => rig.give(Input::SnapshotBroken(receiver)),
    }
    let put = api::etcdserverpb::PutRequest { key: "a".into(), value: "b".into(), ..Default::default() };
    rig.propose(Kind::Put, put.encode_to_vec().into());
    (0..4).for_each(|_| rig.wait(1000));
    taken
}
