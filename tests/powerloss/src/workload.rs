//! The requests to the recorded member, drawn from a seed.

use std::path::Path;

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::batch::CommandKind;
use member::{Answer, Input, Proposal};
use prost::Message;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use store::Response;

use crate::ledger::{DurablePromise, Ledger};
use crate::live::{LiveError, LiveMember};
use crate::recorder::Recorder;
use crate::recording::Recording;

/// Number of keys: few, so that most values in old files are superseded.
const KEYS: u64 = 24;
/// Commands under way at once, at most.
const MAX_BURST: u64 = 5;
/// Length of most values, and of some.
const VALUE_BYTES: u64 = 900;
const LARGE_VALUE_BYTES: u64 = 5_000;
/// Longer than a segment: its record lengthens the file.
const HUGE_VALUE_BYTES: u64 = 20 << 10;
/// TTL of leases.
const LEASE_S: i64 = 5;
/// Changes until a planned kill, at most.
const KILL_WITHIN: u64 = 24;

/// A command and what it does to which keys.
struct WorkloadCommand {
    kind: CommandKind,
    body: Bytes,
    keys: Vec<(Bytes, Option<Bytes>)>,
    /// What must be compacted once it is answered.
    compacts: i64,
}

struct Workload<'d> {
    random: ChaCha8Rng,
    recorder: Recorder,
    data_dir: &'d Path,
    ledger: Ledger,
    next_token: u64,
    next_lease: i64,
    leases: Vec<i64>,
    process: u64,
    kills: u64,
    stops: u64,
}

/// Runs a member in an empty directory for this many steps and records the operations on the disk.
///
/// # Errors
/// What the member did wrong, without any power loss.
pub fn record(data_dir: &Path, seed: u64, steps: usize) -> Result<Recording, String> {
    let mut workload = Workload {
        random: ChaCha8Rng::seed_from_u64(seed),
        recorder: Recorder::new(data_dir),
        data_dir,
        ledger: Ledger::default(),
        next_token: 1,
        next_lease: 1,
        leases: Vec::new(),
        process: 1,
        kills: 0,
        stops: 0,
    };
    let mut live = workload.begin()?;
    for step in 1..=steps {
        // Every recording has kills and graceful stops.
        let ending = if step % 40 == 0 { Some(step % 80 == 0) } else { None };
        live = workload.step(live, ending)?;
    }
    live = workload.stop_and_start(live).or_else(|stopped| workload.again(None, stopped))?;
    live.end();
    let Workload { ledger, recorder, kills, stops, .. } = workload;
    Ok(Recording { operations: recorder.into_operations(), ledger, kills, stops })
}

impl Workload<'_> {
    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    /// Starts a process; returns once it serves requests.
    fn begin(&mut self) -> Result<LiveMember, String> {
        let wrong = |stopped| match stopped {
            LiveError::Wrong(text) => text,
            LiveError::Killed => "it was killed without a planned kill".to_owned(),
        };
        let mut live = LiveMember::start(&self.recorder, self.data_dir, self.process).map_err(wrong)?;
        self.process += 1;
        let token = self.token();
        live.iterate(vec![Input::Read { token }], &mut self.ledger).map_err(wrong)?;
        let served = |live: &LiveMember| live.answers.contains_key(&token);
        live.until("a member alone leads", &mut self.ledger, served).map_err(wrong)?;
        Ok(live)
    }

    /// One step, and a new process if it ended this one. `ending`: gracefully (true) or by a kill.
    fn step(&mut self, mut live: LiveMember, ending: Option<bool>) -> Result<LiveMember, String> {
        let outcome = match ending {
            Some(true) => return self.stop_and_start(live).or_else(|stopped| self.again(None, stopped)),
            Some(false) => {
                let within = 1 + self.below(KILL_WITHIN);
                self.recorder.kill_after(Some(within));
                // Writes, until the process is killed.
                (0..KILL_WITHIN).try_for_each(|_| self.burst(&mut live))
            }
            None => self.draw(&mut live),
        };
        match outcome {
            Ok(()) => Ok(live),
            Err(stopped) => self.again(Some(live), stopped),
        }
    }

    /// After a kill: a new process over what the killed one left.
    fn again(&mut self, live: Option<LiveMember>, stopped: LiveError) -> Result<LiveMember, String> {
        if let LiveError::Wrong(text) = stopped {
            return Err(text);
        }
        live.into_iter().for_each(LiveMember::end);
        self.kills += 1;
        self.recorder.kill_after(None);
        self.begin()
    }

    fn stop_and_start(&mut self, mut live: LiveMember) -> Result<LiveMember, LiveError> {
        live.iterate(vec![Input::Stop], &mut self.ledger)?;
        live.until("a member that was asked to stop stops", &mut self.ledger, LiveMember::is_stopped)?;
        live.end();
        self.stops += 1;
        Ok(self.begin()?)
    }

    fn draw(&mut self, live: &mut LiveMember) -> Result<(), LiveError> {
        match self.below(20) {
            0..11 => self.burst(live),
            11 | 12 => self.compact(live),
            13 | 14 => {
                let grant = self.grant();
                self.ask(live, vec![grant])
            }
            15 => self.end_lease(live),
            16 => live.iterate(vec![Input::Defragment], &mut self.ledger),
            _ => {
                // Time passes: the log is sealed, leases run out.
                let iterations = 5 + self.below(300);
                (0..iterations).try_for_each(|_| live.iterate(Vec::new(), &mut self.ledger))
            }
        }
    }

    /// Several commands at once.
    fn burst(&mut self, live: &mut LiveMember) -> Result<(), LiveError> {
        let count = 1 + self.below(MAX_BURST);
        let commands = (0..count).map(|_| self.write()).collect();
        self.ask(live, commands)
    }

    /// Sends commands, waits for all answers and compares them with what the member shows.
    fn ask(&mut self, live: &mut LiveMember, commands: Vec<WorkloadCommand>) -> Result<(), LiveError> {
        let asked_at = self.recorder.position();
        let mut asked = Vec::new();
        let mut inputs = Vec::new();
        for command in commands {
            let token = self.token();
            inputs.push(Input::Propose(Proposal {
                token,
                kind: command.kind,
                caller: Default::default(),
                body: command.body.clone(),
            }));
            asked.push((token, command));
        }
        live.iterate(inputs, &mut self.ledger)?;
        for (token, command) in asked {
            live.until("a command is answered", &mut self.ledger, |live| live.answers.contains_key(&token))?;
            let Some((answered_at, answer)) = live.answers.remove(&token) else { continue };
            let revision = match &answer {
                Answer::Applied(Ok(reply)) => {
                    let response = store::resolve(reply, live.opened.values.as_ref());
                    revision_of(&response.map_err(|damaged| damaged.to_string())?)
                }
                // The lease of a put may have run out, or that of a revocation.
                Answer::Applied(Err(api::Error::LeaseNotFound)) => continue,
                other => return Err(LiveError::Wrong(format!("{:?} was answered {other:?}", command.kind))),
            };
            let term = live.opened.status.term();
            let promise = DurablePromise { revision, compacted: command.compacts, term };
            self.ledger.acknowledge(asked_at, answered_at, promise);
            // One command of a burst may overwrite what another wrote, but not at its revision.
            self.ledger.check_write(revision, &command.keys)?;
        }
        Ok(())
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    fn key(&mut self) -> Bytes {
        format!("key{:02}", self.below(KEYS)).into()
    }

    /// A value that is unique in the run.
    fn value(&mut self) -> Bytes {
        let length = match self.below(40) {
            0 => HUGE_VALUE_BYTES,
            1..4 => LARGE_VALUE_BYTES,
            _ => self.below(VALUE_BYTES),
        };
        let mut value = format!("{}:", self.next_token).into_bytes();
        let mut rest = vec![0; length as usize];
        self.random.fill_bytes(&mut rest);
        value.extend(rest);
        value.into()
    }

    fn write(&mut self) -> WorkloadCommand {
        match self.below(10) {
            0..6 => self.put(),
            6 | 7 => self.txn(),
            _ => self.delete(),
        }
    }

    fn put(&mut self) -> WorkloadCommand {
        let (key, value) = (self.key(), self.value());
        let lease = if self.below(4) == 0 { self.leases.last().copied().unwrap_or(0) } else { 0 };
        let put = pb::PutRequest { key: key.clone(), value: value.clone(), lease, ..Default::default() };
        WorkloadCommand {
            kind: CommandKind::Put,
            body: encoded(&put),
            keys: vec![(key, Some(value))],
            compacts: 0,
        }
    }

    fn delete(&mut self) -> WorkloadCommand {
        let key = self.key();
        let delete = pb::DeleteRangeRequest { key: key.clone(), ..Default::default() };
        WorkloadCommand {
            kind: CommandKind::DeleteRange,
            body: encoded(&delete),
            keys: vec![(key, None)],
            compacts: 0,
        }
    }

    /// Puts to several keys and a deletion, all at one revision.
    fn txn(&mut self) -> WorkloadCommand {
        let mut keys: Vec<(Bytes, Option<Bytes>)> = Vec::new();
        for _ in 0..2 + self.below(3) {
            let key = self.key();
            if keys.iter().all(|(other, _)| *other != key) {
                let value = self.value();
                keys.push((key, (self.below(4) > 0).then_some(value)));
            }
        }
        let success = keys.iter().map(|(key, value)| pb::RequestOp { request: Some(operation(key, value)) });
        let txn = pb::TxnRequest { success: success.collect(), ..Default::default() };
        WorkloadCommand { kind: CommandKind::Txn, body: encoded(&txn), keys, compacts: 0 }
    }

    fn compact(&mut self, live: &mut LiveMember) -> Result<(), LiveError> {
        let newest = live.opened.reader.current_revision();
        let lowest = live.opened.reader.compacted().max(0) + 1;
        if newest < lowest {
            return self.burst(live);
        }
        let revision = (newest - self.below(6) as i64).max(lowest);
        let body = encoded(&pb::CompactionRequest { revision, physical: self.below(2) == 0 });
        let compaction =
            WorkloadCommand { kind: CommandKind::Compaction, body, keys: Vec::new(), compacts: revision };
        self.ask(live, vec![compaction])
    }

    fn grant(&mut self) -> WorkloadCommand {
        let id = self.next_lease;
        self.next_lease += 1;
        self.leases.push(id);
        let grant = pb::LeaseGrantRequest { ttl: LEASE_S, id };
        WorkloadCommand {
            kind: CommandKind::LeaseGrant,
            body: encoded(&grant),
            keys: Vec::new(),
            compacts: 0,
        }
    }

    /// A revocation, or a renewal.
    fn end_lease(&mut self, live: &mut LiveMember) -> Result<(), LiveError> {
        let Some(lease) = self.leases.last().copied() else { return Ok(()) };
        if self.below(2) == 0 {
            let token = self.token();
            return live.iterate(vec![Input::Lease { token, lease, renew: true }], &mut self.ledger);
        }
        self.leases.pop();
        let body = encoded(&pb::LeaseRevokeRequest { id: lease });
        self.ask(
            live,
            vec![WorkloadCommand { kind: CommandKind::LeaseRevoke, body, keys: Vec::new(), compacts: 0 }],
        )
    }
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn operation(key: &Bytes, value: &Option<Bytes>) -> pb::request_op::Request {
    let key = key.clone();
    match value {
        Some(value) => pb::request_op::Request::RequestPut(pb::PutRequest {
            key,
            value: value.clone(),
            ..Default::default()
        }),
        None => {
            pb::request_op::Request::RequestDeleteRange(pb::DeleteRangeRequest { key, ..Default::default() })
        }
    }
}

fn revision_of(response: &Response) -> i64 {
    let header = match response {
        Response::Put(response) => &response.header,
        Response::DeleteRange(response) => &response.header,
        Response::Txn(response) => &response.header,
        Response::Compaction(response) => &response.header,
        Response::LeaseGrant(response) => &response.header,
        Response::LeaseRevoke(response) => &response.header,
        Response::LeaseCheckpoint(response) => &response.header,
        Response::Alarm(response) => &response.header,
        Response::Done => &None,
    };
    header.as_ref().map_or(0, |header| header.revision)
}
