//! A member opened from an image, compared with the ledger.

use std::sync::Arc;
use std::time::Duration;

use api::etcdserverpb as pb;
use log::{Disk, LogId, MemDisk, WriteJob};
use member::batch::CommandKind;
use member::{Answer, Input, Now, OpenedMember, Output, Proposal};
use prost::Message;

use crate::ledger::{DurablePromise, Ledger, everything};
use crate::setup::{DATA_DIR, TICK_NS, config, options};
use crate::survival::Survival;

/// Iterations within which a single member must answer: an election takes some tens.
const MAX_ITERATIONS: usize = 200;
/// Number of the first process of a recovered member.
const FIRST_PROCESS: u64 = 1_000;
/// Changes within which a recovery is interrupted: opening makes about ten, the first election some more.
const INTERRUPT_WITHIN: u64 = 24;
/// The key of the write that a recovered member must take.
const PROBE: &[u8] = b"probe";

/// What could be compared after a recovery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecoveryChecks {
    /// The ledger had a hash for its state after opening, and it was equal.
    pub(crate) hash_compared: bool,
    /// An older revision was read and compared.
    pub(crate) history_compared: bool,
}

/// A member without threads: jobs run when they are handed out.
struct RecoveredMember {
    opened: OpenedMember,
    now_ns: u64,
    output: Output,
    next_token: u64,
}

/// Recovers from an image once.
///
/// # Errors
/// The check that failed.
pub(crate) fn recover(
    image: &MemDisk,
    promise: DurablePromise,
    ledger: &Ledger,
    choice: u64,
) -> Result<RecoveryChecks, String> {
    let mut recovered = RecoveredMember::open(image, FIRST_PROCESS)?;
    let hash_compared = recovered.check_hash(ledger)?;
    recovered.check_term(promise)?;
    recovered.lead()?;
    recovered.check_state(promise, ledger)?;
    let history_compared = recovered.check_history(ledger, choice)?;
    Ok(RecoveryChecks { hash_compared, history_compared })
}

/// Loses power a second time while it recovers, and recovers from that.
///
/// # Errors
/// The check that failed.
pub(crate) fn recover_interrupted(
    image: &MemDisk,
    promise: DurablePromise,
    ledger: &Ledger,
    choice: u64,
) -> Result<(), String> {
    let stopping = image.fork();
    stopping.stop_after(choice % INTERRUPT_WITHIN);
    // It fails, or completes before: only the disk matters.
    let _ = RecoveredMember::open(&stopping, FIRST_PROCESS).and_then(|mut recovered| recovered.lead());
    let image = Survival::Chance.image(&stopping, choice);
    recover(&image, promise, ledger, choice).map_err(|why| format!("interrupted, a second time: {why}"))?;
    Ok(())
}

/// Recovers, writes, loses power again and recovers again.
///
/// # Errors
/// The check that failed.
pub(crate) fn recover_and_go_on(
    image: &MemDisk,
    promise: DurablePromise,
    ledger: &Ledger,
) -> Result<(), String> {
    let mut recovered = RecoveredMember::open(image, FIRST_PROCESS)?;
    recovered.lead()?;
    let revision = recovered.opened.reader.current_revision();
    recovered.probe()?;
    let written = everything(&recovered.opened, 0)?;
    drop(recovered);
    let image = image.lose_power(&mut |_| 0);
    let mut again =
        RecoveredMember::open(&image, FIRST_PROCESS + 1).map_err(|why| format!("a second time: {why}"))?;
    again.lead()?;
    if everything(&again.opened, 0)? != written {
        return Err("what was there with a new write is not there after another power loss".to_owned());
    }
    if revision < promise.revision || ledger.state(revision).is_none() {
        return Err(format!("revision {revision} was never shown, or {} was promised", promise.revision));
    }
    Ok(())
}

impl RecoveredMember {
    fn open(image: &MemDisk, process: u64) -> Result<RecoveredMember, String> {
        let disk: Arc<dyn Disk> = Arc::new(image.clone());
        let opened = member::open(&disk, &options(DATA_DIR), config(process), &member::Sequential);
        let opened = opened.map_err(|error| format!("it does not open: {error}"))?;
        Ok(RecoveredMember { opened, now_ns: 0, output: Output::default(), next_token: 0 })
    }

    fn iterate(&mut self, inputs: Vec<Input>) -> Result<Vec<(u64, Answer)>, String> {
        self.now_ns += TICK_NS / 2;
        let now = Now { monotonic_ns: self.now_ns, wall_ms: self.now_ns / 1_000_000 };
        let member = &mut self.opened.member;
        let mut inputs = inputs;
        let mut answers = Vec::new();
        loop {
            let mut taken = inputs.drain(..);
            let decided = taken.try_for_each(|input| member.handle(now, input, &mut self.output));
            drop(taken);
            decided
                .and_then(|()| member.drive(now, &mut self.output))
                .map_err(|fatal| format!("it stops: {fatal}"))?;
            answers.append(&mut self.output.answers);
            let writes = std::mem::take(&mut self.output.writes);
            if !writes.is_empty() {
                inputs.push(Input::WritesSynced(WriteJob::run_all(writes, &|| Duration::ZERO)));
            }
            let jobs = self.output.background.drain(..);
            inputs.extend(jobs.map(|job| Input::Background(Box::new(job.run()))));
            if inputs.is_empty() {
                return Ok(answers);
            }
        }
    }

    fn ask(&mut self, input: impl FnOnce(u64) -> Input) -> Result<Answer, String> {
        self.next_token += 1;
        let token = self.next_token;
        let mut inputs = vec![input(token)];
        for _ in 0..MAX_ITERATIONS {
            let answers = self.iterate(std::mem::take(&mut inputs))?;
            if let Some((_, answer)) = answers.into_iter().find(|(answered, _)| *answered == token) {
                return Ok(answer);
            }
        }
        Err(format!("no answer within {MAX_ITERATIONS} iterations"))
    }

    /// Waits until it serves linearizable reads: then all of its log is applied.
    fn lead(&mut self) -> Result<(), String> {
        match self.ask(|token| Input::Read { token })? {
            Answer::ReadNow => Ok(()),
            other => Err(format!("a read is answered {other:?}")),
        }
    }

    fn probe(&mut self) -> Result<(), String> {
        let put = pb::PutRequest { key: PROBE.into(), value: PROBE.into(), ..Default::default() };
        let body = put.encode_to_vec().into();
        match self.ask(|token| {
            Input::Propose(Proposal { token, kind: CommandKind::Put, caller: Default::default(), body })
        })? {
            Answer::Applied(Ok(_)) => Ok(()),
            other => Err(format!("a new write is answered {other:?}")),
        }
    }

    /// Compares the state after opening, if the ledger has a hash for its index.
    fn check_hash(&self, ledger: &Ledger) -> Result<bool, String> {
        let (applied, hash) = self.opened.reader.state_hash();
        let id = LogId { index: applied.index, term: applied.term };
        match ledger.hash(id) {
            Some(recorded) if recorded != hash => Err(format!("the state at {id:?} has another hash")),
            recorded => Ok(recorded.is_some()),
        }
    }

    fn check_term(&self, promise: DurablePromise) -> Result<(), String> {
        let term = self.opened.status.term();
        match term < promise.term {
            true => Err(format!("it is back in term {term}, after one in term {}", promise.term)),
            false => Ok(()),
        }
    }

    fn check_state(&self, promise: DurablePromise, ledger: &Ledger) -> Result<(), String> {
        let (revision, compacted) =
            (self.opened.reader.current_revision(), self.opened.reader.compacted().max(0));
        if revision < promise.revision {
            return Err(format!("revision {} was acknowledged, {revision} is there", promise.revision));
        }
        if compacted < promise.compacted {
            return Err(format!(
                "a compaction at {} was acknowledged, {compacted} is there",
                promise.compacted
            ));
        }
        self.compare(revision, ledger)
    }

    /// Reads an older revision, if there is one: it has relocated and superseded values.
    fn check_history(&self, ledger: &Ledger, choice: u64) -> Result<bool, String> {
        let reader = &self.opened.reader;
        let (newest, oldest) = (reader.current_revision(), reader.compacted().max(1));
        if oldest >= newest {
            return Ok(false);
        }
        let revision = oldest + (choice % (newest - oldest) as u64) as i64;
        self.compare(revision, ledger).map(|()| true)
    }

    fn compare(&self, revision: i64, ledger: &Ledger) -> Result<(), String> {
        let found = everything(&self.opened, revision)?;
        match ledger.state(revision) {
            Some(state) if state == found => Ok(()),
            Some(_) => Err(format!("at revision {revision} it shows other keys or values than were there")),
            None => Err(format!("it shows revision {revision}, which was never there")),
        }
    }
}
