//! A member hears from peers that may say anything at any time, and goes on or stops with an error; it never panics.
//!
//! The script is what happens: frames of peers, ticks, requests, streams that come and go, writes that hang.

use bytes::Bytes;
use log::MemDisk;
use member::Input;
use member::batch::Kind;

use crate::rig::{Rig, config};
use crate::script::{Script, put_piece};

/// Steps of a script that are looked at.
const MAX_STEPS: usize = 200;

/// Milliseconds of the shortest wait.
pub const WAIT_MS: u64 = 10;

/// The sorts of steps, as scripts number them.
pub const FRAME: u8 = 0;
/// Time passes: a byte, in units of [`WAIT_MS`].
pub const WAIT: u8 = 1;

/// Member 1 of three, as it is created.
pub fn member() -> Rig {
    Rig::open(&MemDisk::new(), config(1, 3, 1)).expect("an empty disk becomes a member")
}

/// Appends a frame that peer `from` sent.
pub fn put_frame(script: &mut Vec<u8>, from: u64, frame: &[u8]) {
    script.extend([FRAME, from as u8]);
    put_piece(script, frame);
}

/// Carries out a script.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut rig = member();
    rig.give(Input::PeerUp(2));
    rig.give(Input::PeerUp(3));
    for _ in 0..MAX_STEPS {
        if step(&mut rig, &mut script).is_none() || rig.is_over {
            break;
        }
        rig.answers.clear();
        rig.frames.clear();
        rig.snapshots.clear();
    }
}

fn step(rig: &mut Rig, script: &mut Script<'_>) -> Option<()> {
    match script.byte()? {
        FRAME => {
            let from = u64::from(script.byte()?);
            rig.give(Input::Frame { from, bytes: Bytes::copy_from_slice(script.piece()?) });
        }
        WAIT => rig.wait(WAIT_MS * u64::from(script.byte()?)),
        2 => drop(rig.propose(Kind::Put, Bytes::copy_from_slice(script.piece()?))),
        3 => drop(rig.ask(|token| Input::Read { token })),
        4 => {
            let lease = i64::from(script.byte()?);
            rig.ask(|token| Input::Lease { token, lease, renew: lease & 1 == 0 });
        }
        5 => rig.give(Input::PeerUp(u64::from(script.byte()?))),
        6 => rig.give(Input::PeerDown(u64::from(script.byte()?))),
        7 => rig.holds_writes = !rig.holds_writes,
        8 => {
            let to = u64::from(script.byte()?);
            rig.ask(|token| Input::MoveLeader { token, to });
        }
        9 => {
            let header = Bytes::copy_from_slice(script.piece()?);
            rig.ask(|token| Input::SnapshotOffered { token, from: 2, header });
        }
        10 => rig.give(Input::Defragment),
        11 => rig.give(Input::Stop),
        _ => return None,
    }
    Some(())
}
