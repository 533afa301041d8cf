//! A data directory in which every byte may be anything is opened as a member: its checkpoint is restored, its log
//! replayed. If that works it runs for a while, as a single member also with writes.

use member::Input;
use member::batch::CommandKind;
use prost::Message;

use crate::input::fixture::{MemberFixture, config};
use crate::input::image;

/// Reads a script as [`image::lay_out`] does.
pub fn run(data: &[u8]) {
    let disk = image::lay_out(data);
    let Ok(mut fixture) = MemberFixture::open(&disk, config(1, 1, 2)) else {
        return;
    };
    fixture.wait(0);
    let put = api::etcdserverpb::PutRequest { key: "a".into(), value: "b".into(), ..Default::default() };
    fixture.propose(CommandKind::Put, put.encode_to_vec().into());
    fixture.ask(|token| Input::Read { token });
    for _ in 0..4 {
        fixture.wait(1000);
    }
    fixture.give(Input::Stop);
}
