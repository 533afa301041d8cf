//! `follow`: copies a running cluster into another one, then all changes as they come.
//!
//! The keys at one revision are copied first, then the changes behind it are watched. Each revision of the source
//! becomes one transaction of the destination, which also says how far the copy has come: so it goes on where it was
//! interrupted, without a change that is missing, doubled or out of order. RFC 0036 describes it.
//!
//! ```text
//!   begin ──> copy keys at revision 9 ──> follow changes 10, 11, 12 … ──> caught up: verify, end
//!                    ^                          │
//!                    └── they were compacted <──┘
//! ```
//!
//! | file | does |
//! |---|---|
//! | `begin.rs` | what is requested; decides where a copy begins, and refuses a destination that is not its own |
//! | `copy.rs`, `kept.rs` | the keys at one revision; with the revisions of the source |
//! | `tail.rs`, `changes.rs` | changes as they come, and what the destination must do for them |
//! | `writer.rs`, `state.rs` | transactions of the destination, and the state that is in each |
//! | `leases.rs` | leases live as long as at the source |
//! | `verify.rs` | compares both sides |
//! | `calls.rs` | calls that are repeated until they are answered |
//! | `board.rs`, `report.rs` | what an operator sees |
//!
//! It is a client of both sides, and knows nothing of what they are.

mod begin;
mod board;
mod calls;
mod changes;
mod copy;
mod kept;
mod leases;
mod report;
mod state;
mod tail;
mod verify;
mod writer;

use std::rc::Rc;

use crate::client::{Client, ClientOptions};
use crate::command::stopped;
use crate::exit::{Exit, Outcome, code};
use crate::shell::Shell;
use begin::FollowWish;
use board::FollowBoard;
use calls::{FollowHalt, PatientClient};
use leases::LeaseCopies;
use report::FollowReport;
use state::FollowPosition;
use writer::FollowWriter;

/// Bytes of the largest answer that is accepted unless `--max-recv-bytes` says otherwise: larger pages are asked for
/// again with fewer keys.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// One copy.
struct Follower {
    source: Rc<PatientClient>,
    destination: Rc<PatientClient>,
    leases: Rc<LeaseCopies>,
    board: Rc<FollowBoard>,
    writer: FollowWriter,
    wish: Rc<FollowWish>,
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args("follow takes one argument, the endpoints of the destination"));
    }
    let wish = Rc::new(FollowWish::read(shell)?);
    let board = Rc::new(FollowBoard::default());
    let names: Vec<String> = shell.arg(0).split(',').map(str::to_owned).collect();
    let destination = shell.destination_options(&names).await?;
    let destination = patient(destination, "destination", &board).await?;
    let source = shell.client_options().await?;
    let source = patient(source, "source", &board).await?;
    let mut report = FollowReport::new(shell.streams.errors_on_terminal);
    let copy = follow(&source, &destination, &board, &wish);
    let end = tokio::select! {
        end = copy => end,
        error = report.run(shell, &board, wish.interval) => match error {
            Err(error) => Err(FollowHalt::Exit(error)),
            Ok(never) => match never {},
        },
        never = report::watch_revision(&source, &wish.state_key, &board) => match never {},
        stop = stopped() => {
            board.note(interrupted(&board));
            stop.map_err(|error| FollowHalt::Exit(error.into()))
        }
    };
    report.finish(shell, &board)?;
    match end {
        Ok(()) => Ok(()),
        Err(FollowHalt::Exit(exit)) => Err(exit),
        Err(FollowHalt::Compacted(_)) => {
            Err(Exit::new(code::ERROR, "the source compacts faster than it is read"))
        }
    }
}

fn interrupted(board: &FollowBoard) -> String {
    match board.figures().applied {
        0 => "stopped while keys were copied; the same command goes on from there".to_owned(),
        applied => {
            format!("stopped behind revision {applied} of the source; the same command goes on from there")
        }
    }
}

async fn patient(
    options: ClientOptions,
    role: &'static str,
    board: &Rc<FollowBoard>,
) -> Result<Rc<PatientClient>, Exit> {
    let max_response_bytes = match options.max_response_bytes {
        0 => MAX_ANSWER_BYTES,
        bytes => bytes,
    };
    let names: Vec<String> = options.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
    let opened = Client::open(ClientOptions { max_response_bytes, ..options }).await;
    let client = opened.map_err(|error| Exit {
        message: Some(format!("the {role}, {}: {}", names.join(","), error.reason())),
        ..Exit::call(code::BAD_CONNECTION, error)
    })?;
    Ok(Rc::new(PatientClient::new(client, role, board.clone())))
}

/// Copies until the requested end, and keeps the leases meanwhile.
async fn follow(
    source: &Rc<PatientClient>,
    destination: &Rc<PatientClient>,
    board: &Rc<FollowBoard>,
    wish: &Rc<FollowWish>,
) -> Result<(), FollowHalt> {
    let begun = begin::begin(source, destination, wish).await?;
    let (source, destination) = (source.clone(), destination.clone());
    let leases = Rc::new(LeaseCopies::new(source.clone(), destination.clone(), board.clone()));
    let writer =
        FollowWriter::new(destination.clone(), leases.clone(), board.clone(), wish.state_key.clone(), begun);
    let (board, wish) = (board.clone(), wish.clone());
    let mut follower = Follower { source, destination, leases: leases.clone(), board, writer, wish };
    tokio::select! {
        end = follower.run() => end,
        error = leases.keep() => match error {
            Err(error) => Err(error.into()),
            Ok(never) => match never {},
        },
    }
}

impl Follower {
    async fn run(&mut self) -> Result<(), FollowHalt> {
        loop {
            let end = match self.writer.position().clone() {
                FollowPosition::Copying { revision, last } => self.copy_keys(revision, last).await,
                FollowPosition::Copied { revision } => match self.follow_changes(revision).await {
                    Ok(()) => return self.finish().await,
                    end => end,
                },
            };
            match end {
                Ok(()) => {}
                Err(FollowHalt::Compacted(revision)) => self.after_compaction(revision).await?,
                end => return end,
            }
        }
    }

    /// Goes on after changes were compacted before they were copied.
    async fn after_compaction(&mut self, compacted: i64) -> Result<(), FollowHalt> {
        if !self.wish.keeps_revisions {
            self.board.note("the source has compacted what was to be read next: copying what differs now");
            return self.copy_again().await;
        }
        if compacted == 0 {
            // A read found that out: the watch says how far.
            return Ok(());
        }
        match self.copy_kept(compacted).await {
            // It was compacted again meanwhile.
            Err(FollowHalt::Compacted(_)) => Ok(()),
            end => end,
        }
    }

    /// Removes the state key, if that is requested.
    async fn finish(&mut self) -> Result<(), FollowHalt> {
        let key = String::from_utf8_lossy(&self.wish.state_key).into_owned();
        if self.wish.finishes {
            self.writer.remove_state().await?;
            self.board.note(format!("removed the state key {key:?}: the clients may go to the destination"));
        } else {
            self.board
                .note(format!("the state key {key:?} is still in the destination: --finish removes it"));
        }
        Ok(())
    }
}
