//! A member receives any frames from its peers at any time; it continues or stops with an error, and never panics.
//!
//! The script is what happens: frames of peers, ticks, requests, streams that come and go, writes that hang.

use bytes::Bytes;
use log::MemDisk;
use member::Input;
use member::batch::CommandKind;

use crate::input::fixture::{MemberFixture, config};
use crate::input::script::{Script, put_bytes};

/// Steps of a script that are looked at.
const MAX_STEPS: usize = 200;

/// Milliseconds of the shortest wait.
pub const WAIT_MS: u64 = 10;

/// The sorts of steps, as scripts number them.
pub const FRAME: u8 = 0;
/// Time passes: a byte, in units of [`WAIT_MS`].
pub const WAIT: u8 = 1;

/// Member 1 of three, as it is created.
pub fn member() -> MemberFixture {
    MemberFixture::open(&MemDisk::new(), config(1, 3, 1)).expect("an empty disk becomes a member")
}

/// Appends a frame that peer `from` sent.
pub fn put_frame(script: &mut Vec<u8>, from: u64, frame: &[u8]) {
    script.extend([FRAME, from as u8]);
    put_bytes(script, frame);
}

/// Carries out a script.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut fixture = member();
    fixture.give(Input::PeerUp(2));
    fixture.give(Input::PeerUp(3));
    for _ in 0..MAX_STEPS {
        if step(&mut fixture, &mut script).is_none() || fixture.is_over {
            break;
        }
        fixture.answers.clear();
        fixture.frames.clear();
        fixture.snapshots.clear();
    }
}

fn step(fixture: &mut MemberFixture, script: &mut Script<'_>) -> Option<()> {
    match script.byte()? {
        FRAME => {
            let from = u64::from(script.byte()?);
            fixture.give(Input::Frame { from, bytes: Bytes::copy_from_slice(script.bytes()?) });
        }
        WAIT => fixture.wait(WAIT_MS * u64::from(script.byte()?)),
        2 => drop(fixture.propose(CommandKind::Put, Bytes::copy_from_slice(script.bytes()?))),
        3 => drop(fixture.ask(|token| Input::Read { token })),
        4 => {
            let lease = i64::from(script.byte()?);
            fixture.ask(|token| Input::Lease { token, lease, renew: lease & 1 == 0 });
        }
        5 => fixture.give(Input::PeerUp(u64::from(script.byte()?))),
        6 => fixture.give(Input::PeerDown(u64::from(script.byte()?))),
        7 => fixture.holds_writes = !fixture.holds_writes,
        8 => {
            let to = u64::from(script.byte()?);
            fixture.ask(|token| Input::MoveLeader { token, to });
        }
        9 => {
            let header = Bytes::copy_from_slice(script.bytes()?);
            fixture.ask(|token| Input::SnapshotOffered { token, from: 2, header });
        }
        10 => fixture.give(Input::Defragment),
        11 => fixture.give(Input::Stop),
        12 => fixture.give(Input::PeerNotListening(u64::from(script.byte()?))),
        _ => return None,
    }
    Some(())
}
