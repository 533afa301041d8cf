//! A whole cluster in one thread: members, the network between them, and the invariants, checked at every step.
//!
//! The network has two ordered streams a pair, as the real one: what is sent arrives in order or the connection
//! breaks, and then the rest is lost and the sender hears of it. Every message goes through the codec.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use consensus::{
    Body, ConfChange, Consensus, Entry, EntryKind, Message, MessageClass, ProposeError, Ready, SnapshotMeta,
    Start,
};

use crate::member::Member;
use crate::rng::Rng;

type Link = (u64, u64, bool);

pub(crate) struct Cluster {
    pub(crate) rng: Rng,
    pub(crate) seed: u64,
    pub(crate) members: BTreeMap<u64, Member>,
    links: BTreeMap<Link, VecDeque<Bytes>>,
    /// Pairs that cannot talk.
    pub(crate) cut: BTreeSet<(u64, u64)>,
    /// Every committed entry anybody ever saw.
    pub(crate) committed: BTreeMap<u64, Entry>,
    leaders: BTreeMap<u64, u64>,
    /// For each read asked: what was committed anywhere at that moment.
    reads: BTreeMap<u64, u64>,
    /// Tokens of reads that wait for a round, by member.
    waiting_reads: BTreeMap<u64, VecDeque<u64>>,
    next_token: u64,
    pub(crate) reads_served: usize,
    pub(crate) snapshots_installed: usize,
    pub(crate) fetches_served: usize,
    /// Bytes of the longest message that was delivered.
    pub(crate) longest: usize,
    pub(crate) proposals: u64,
    pub(crate) changes_members: bool,
}

impl Cluster {
    pub(crate) fn new(seed: u64, voters: u64) -> Cluster {
        let mut cluster = Cluster {
            rng: Rng::new(seed),
            seed,
            members: BTreeMap::new(),
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            committed: BTreeMap::new(),
            leaders: BTreeMap::new(),
            reads: BTreeMap::new(),
            waiting_reads: BTreeMap::new(),
            next_token: 0,
            reads_served: 0,
            snapshots_installed: 0,
            fetches_served: 0,
            longest: 0,
            proposals: 0,
            changes_members: false,
        };
        for id in 1..=voters {
            cluster.members.insert(id, Member::new(id, &Start::bootstrap(1..=voters), seed));
        }
        cluster
    }

    /// Adds a member that knows nothing yet.
    pub(crate) fn join(&mut self, id: u64) {
        self.members.insert(id, Member::new(id, &Start::joining(), self.seed));
    }

    pub(crate) fn node(&mut self, id: u64) -> &mut Consensus {
        self.members.get_mut(&id).unwrap().node.as_mut().expect("the member runs")
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        self.members.values().filter(|member| member.node.is_some()).map(|member| member.id).collect()
    }

    /// All who believe that they lead.
    pub(crate) fn leaders_running(&self) -> Vec<u64> {
        let leads = |member: &&Member| member.node.as_ref().is_some_and(Consensus::is_leader);
        self.members.values().filter(leads).map(|member| member.id).collect()
    }

    /// The leader of the newest term among those that run.
    pub(crate) fn leader(&self) -> Option<u64> {
        let nodes = self.members.values().filter_map(|member| Some((member.id, member.node.as_ref()?)));
        let leaders = nodes.filter(|(_, node)| node.is_leader());
        leaders.max_by_key(|(_, node)| node.status().term).map(|(id, _)| id)
    }

    pub(crate) fn propose(&mut self, id: u64, size: usize) -> Result<(u64, u64), ProposeError> {
        self.proposals += 1;
        let mut payload = self.proposals.to_le_bytes().to_vec();
        payload.resize(size.max(8), 7);
        let result = self.node(id).propose(payload.into());
        self.work(id);
        result
    }

    pub(crate) fn propose_conf_change(
        &mut self,
        id: u64,
        change: &ConfChange,
    ) -> Result<(u64, u64), ProposeError> {
        let result = self.node(id).propose_conf_change(change);
        self.work(id);
        result
    }

    pub(crate) fn read(&mut self, id: u64) {
        self.next_token += 1;
        let token = self.next_token;
        let newest = self.committed.keys().next_back().copied().unwrap_or(0);
        self.reads.insert(token, newest);
        self.waiting_reads.entry(id).or_default().push_back(token);
        self.work(id);
    }

    /// Starts a ReadIndex round for the oldest read that waits; false if none waits or the member starts none now.
    pub(crate) fn start_round(&mut self, id: u64) -> bool {
        let waiting = self.waiting_reads.get(&id).and_then(|tokens| tokens.front());
        let Some(token) = waiting.copied() else { return false };
        let is_started = self.node(id).start_round(token).is_ok();
        if is_started {
            self.waiting_reads.entry(id).or_default().pop_front();
        }
        is_started
    }

    pub(crate) fn tick(&mut self, id: u64) {
        self.node(id).tick();
        if !self.start_round(id) {
            self.node(id).retry_round();
        }
        self.work(id);
    }

    /// Completes the oldest write of a member's disk; false if there is none, or the disk stalls.
    pub(crate) fn complete_write(&mut self, id: u64) -> bool {
        let member = self.members.get_mut(&id).unwrap();
        if member.is_disk_stalled {
            return false;
        }
        let Some(write) = member.writes.pop_front() else { return false };
        member.disk.write(&write);
        if let Some(meta) = &write.snapshot {
            member.applied = meta.index;
            member.conf_state = meta.conf_state.clone();
            self.snapshots_installed += 1;
        }
        if write.must_sync {
            let messages = self.node(id).synced(write.number);
            self.send(id, messages);
        }
        self.work(id);
        true
    }

    /// Delivers the next message of a link; false if there is none.
    pub(crate) fn deliver(&mut self, link: Link) -> bool {
        let Some(frame) = self.links.get_mut(&link).and_then(VecDeque::pop_front) else { return false };
        let (from, to, _) = link;
        self.longest = self.longest.max(frame.len());
        let message = Message::decode(frame).expect("what was encoded is decoded");
        let is_snapshot = matches!(message.body, Body::Snapshot(_));
        let is_up = self.members[&to].node.is_some();
        if is_up {
            self.node(to)
                .step(from, message)
                .unwrap_or_else(|rejected| panic!("seed {}: {rejected}", self.seed));
            self.work(to);
        }
        if self.members[&from].node.is_some() {
            if is_snapshot {
                self.node(from).report_snapshot(to, is_up);
            } else if !is_up {
                self.node(from).report_unreachable(to);
            }
            self.work(from);
        }
        true
    }

    pub(crate) fn bytes_under_way(&self, from: u64, to: u64) -> usize {
        self.links.get(&(from, to, true)).into_iter().flatten().map(Bytes::len).sum()
    }

    /// What is under way from one member to another is lost, without a report to either.
    pub(crate) fn lose(&mut self, from: u64, to: u64) {
        for is_bulk in [false, true] {
            self.links.remove(&(from, to, is_bulk));
        }
    }

    pub(crate) fn waiting_links(&self) -> Vec<Link> {
        self.links.iter().filter(|(_, queue)| !queue.is_empty()).map(|(link, _)| *link).collect()
    }

    /// Breaks the connections between two members; what was under way is lost.
    pub(crate) fn disconnect(&mut self, a: u64, b: u64) {
        for (from, to) in [(a, b), (b, a)] {
            let mut lost = VecDeque::new();
            for is_bulk in [false, true] {
                lost.append(self.links.entry((from, to, is_bulk)).or_default());
            }
            let was_snapshot = lost
                .into_iter()
                .any(|frame| matches!(Message::decode(frame).unwrap().body, Body::Snapshot(_)));
            if self.members[&from].node.is_some() {
                if was_snapshot {
                    self.node(from).report_snapshot(to, false);
                }
                self.node(from).report_unreachable(to);
                self.work(from);
            }
        }
    }

    pub(crate) fn crash(&mut self, id: u64) {
        let under_way = self.members[&id].writes.len();
        let written = self.rng.below(under_way + 1);
        self.members.get_mut(&id).unwrap().crash(written);
        let others: Vec<u64> = self.members.keys().copied().filter(|other| *other != id).collect();
        for other in others {
            self.disconnect(id, other);
        }
    }

    pub(crate) fn restart(&mut self, id: u64) {
        let seed = self.seed;
        self.members.get_mut(&id).unwrap().start(seed);
        self.work(id);
    }

    /// Carries out everything a node wants done.
    pub(crate) fn work(&mut self, id: u64) {
        while let Some(ready) = self.members.get_mut(&id).unwrap().node.as_mut().and_then(Consensus::ready) {
            self.carry_out(id, ready);
        }
        self.check_leaders();
    }

    fn carry_out(&mut self, id: u64, ready: Ready) {
        self.send(id, ready.messages);
        if let Some(write) = ready.write {
            self.members.get_mut(&id).unwrap().writes.push_back(write);
        }
        self.apply(id, ready.committed);
        for won in ready.rounds_won {
            let newest = self.reads.remove(&won.owner_round).expect("a read is served once");
            assert!(won.index >= newest, "seed {}: a read at {} misses {newest}", self.seed, won.index);
            self.reads_served += 1;
        }
        for token in ready.rounds_dropped {
            self.reads.remove(&token).expect("a read is dropped once");
        }
        for fetch in ready.fetches {
            let disk = &self.members[&id].disk;
            let mut bytes = 0;
            let entries: Vec<Entry> = (fetch.from..fetch.to)
                .map_while(|index| disk.entry(index).cloned())
                .take_while(|entry| {
                    let enough = bytes >= fetch.max_bytes;
                    bytes += entry.payload.len() as u64;
                    !enough
                })
                .collect();
            self.fetches_served += 1;
            if entries.is_empty() {
                self.node(id).fetch_failed(fetch.from);
            } else {
                self.node(id).entries_fetched(fetch.from, entries);
            }
        }
        for peer in ready.snapshots_wanted {
            let member = &self.members[&id];
            let term = match member.disk.entry(member.applied) {
                Some(entry) => entry.term,
                None => member.disk.previous.1,
            };
            let meta = SnapshotMeta { index: member.applied, term, conf_state: member.conf_state.clone() };
            self.node(id).offer_snapshot(peer, &meta);
        }
    }

    fn apply(&mut self, id: u64, entries: Vec<Entry>) {
        for entry in entries {
            let member = self.members.get_mut(&id).unwrap();
            assert_eq!(entry.index, member.applied + 1, "seed {}: entries are applied in order", self.seed);
            assert_eq!(member.disk.entry(entry.index), Some(&entry), "what is applied is on our disk");
            let known = self.committed.entry(entry.index).or_insert_with(|| entry.clone());
            assert_eq!(known, &entry, "seed {}: one entry at an index", self.seed);
            if entry.kind == EntryKind::ConfChange {
                let change = ConfChange::decode(entry.payload.clone()).unwrap();
                let replayed = member.conf_state.after(&change);
                let running = member.node.as_mut().unwrap().apply_conf_change(&change);
                assert_eq!(replayed, running, "replay and run agree");
                member.conf_state = running.unwrap_or(member.conf_state.clone());
            }
            member.applied = entry.index;
            member.node.as_mut().unwrap().applied(entry.index);
        }
    }

    fn send(&mut self, id: u64, messages: Vec<Message>) {
        for message in messages {
            assert_eq!(message.from, id);
            self.check_promise(&message);
            let is_cut = self.cut.contains(&(id, message.to)) || !self.members.contains_key(&message.to);
            if is_cut {
                let node = self.node(id);
                match message.body {
                    Body::Snapshot(_) => node.report_snapshot(message.to, false),
                    _ => node.report_unreachable(message.to),
                }
                continue;
            }
            let link = (id, message.to, message.class() == MessageClass::Bulk);
            self.links.entry(link).or_default().push_back(message.encode().concat().into());
        }
    }

    /// What a message promises about the disk is on the disk.
    fn check_promise(&self, message: &Message) {
        let disk = &self.members[&message.from].disk;
        match &message.body {
            Body::AppendAccepted { index, .. } => {
                assert!(disk.last() >= *index, "seed {}: accepted {index}, not on disk", self.seed);
            }
            Body::Vote { pre: false, .. } => {
                assert_eq!((disk.hard_state.term, disk.hard_state.vote), (message.term, message.from));
            }
            Body::VoteResponse { pre: false, granted: true, .. } if disk.hard_state.term == message.term => {
                assert_eq!(disk.hard_state.vote, message.to, "seed {}: a vote not on disk", self.seed);
            }
            _ => {}
        }
        if !matches!(message.body, Body::Vote { pre: true, .. } | Body::VoteResponse { pre: true, .. }) {
            assert!(message.term <= disk.hard_state.term, "seed {}: a term not on disk", self.seed);
        }
    }

    fn check_leaders(&mut self) {
        for member in self.members.values() {
            if let Some(node) = member.node.as_ref().filter(|node| node.is_leader()) {
                let known = *self.leaders.entry(node.status().term).or_insert(member.id);
                assert_eq!(known, member.id, "seed {}: two leaders in a term", self.seed);
            }
        }
    }

    /// Lets everything run without faults for some rounds: every message, every write, a tick each.
    pub(crate) fn run(&mut self, rounds: usize) {
        let running = self.running();
        self.run_among(&running, rounds);
    }

    /// The same, but only these members and what they say to each other; the rest stands still.
    pub(crate) fn run_among(&mut self, ids: &[u64], rounds: usize) {
        for _ in 0..rounds {
            for id in ids {
                self.tick(*id);
            }
            self.flush_among(ids);
        }
    }

    /// Delivers and writes until nothing is under way.
    pub(crate) fn flush(&mut self) {
        let all: Vec<u64> = self.members.keys().copied().collect();
        self.flush_among(&all);
    }

    fn flush_among(&mut self, ids: &[u64]) {
        loop {
            let mut busy = false;
            for link in self.waiting_links() {
                busy |= ids.contains(&link.0) && ids.contains(&link.1) && self.deliver(link);
            }
            for id in self.running() {
                busy |= ids.contains(&id) && self.complete_write(id);
            }
            if !busy {
                return;
            }
        }
    }

    /// A leader, after as many rounds as it takes.
    pub(crate) fn elect(&mut self) -> u64 {
        for _ in 0..200 {
            self.run(1);
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("seed {}: no leader", self.seed);
    }
}
