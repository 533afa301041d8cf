//! What clients ask of a cluster: commands through its leader, reads at one member; and what members have noted.

use api::etcdserverpb as pb;
use bytes::Bytes;
use member::batch::CommandKind;
use member::{Answer, Input, Notice, Proposal, SnapshotEvent};
use prost::Message;

use crate::rig::{Cluster, TICK_NS};

impl Cluster {
    pub(crate) fn propose(&mut self, at: u64, kind: CommandKind, body: &impl Message) -> store::Outcome {
        let body = body.encode_to_vec().into();
        match self.ask(at, |token| Input::Propose(Proposal { token, kind, caller: Default::default(), body }))
        {
            Answer::Applied(outcome) => outcome,
            Answer::Failed(error) => Err(error),
            other => panic!("another answer: {other:?}"),
        }
    }

    /// Gives a command to a member, without waiting for the answer, which comes under the token.
    pub(crate) fn begin(&mut self, at: u64, kind: CommandKind, body: &impl Message) -> u64 {
        let body = body.encode_to_vec().into();
        self.send(at, |token| Input::Propose(Proposal { token, kind, caller: Default::default(), body }))
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Bytes>) {
        let leader = self.leader().expect("somebody leads");
        let put = pb::PutRequest { key: key.to_owned().into(), value: value.into(), ..Default::default() };
        self.propose(leader, CommandKind::Put, &put).expect("a put is applied");
    }

    /// Reads a key at one member, and repairs what is damaged as an RPC worker would.
    pub(crate) fn get(&mut self, at: u64, key: &str) -> Result<Option<Bytes>, api::Error> {
        loop {
            let opened = &self.nodes[&at].opened;
            let _pin = opened.log.pin();
            let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
            let reply = opened.reader.range(&range).expect("in range");
            match store::resolve_range(&reply, opened.values.as_ref()) {
                Ok(response) => return Ok(response.kvs.into_iter().next().map(|kv| kv.value)),
                Err(damaged) => {
                    let (address, key) = (damaged.address, damaged.key);
                    match self.ask(at, |token| Input::Repair { token, address, key }) {
                        Answer::Repaired => {}
                        Answer::Failed(error) => return Err(error),
                        other => panic!("another answer: {other:?}"),
                    }
                }
            }
        }
    }

    pub(crate) fn compact(&mut self, physical: bool) {
        let leader = self.leader().expect("somebody leads");
        let revision = self.nodes[&leader].opened.reader.current_revision();
        let request = pb::CompactionRequest { revision, physical };
        self.propose(leader, CommandKind::Compaction, &request).expect("a compaction is applied");
    }

    /// How often a snapshot event of this sort was noted at a member.
    pub(crate) fn events(&self, at: u64, of: impl Fn(&SnapshotEvent) -> bool) -> usize {
        let events = self.nodes[&at].notices.iter();
        events.filter(|notice| matches!(notice, Notice::Snapshot { event, .. } if of(event))).count()
    }

    /// Why a member could not send snapshots, for each that it could not.
    pub(crate) fn reasons_not_sent(&self, at: u64) -> Vec<String> {
        let reason = |notice: &Notice| match notice {
            Notice::Snapshot { event: SnapshotEvent::NotSent { reason, .. }, .. } => Some(reason.clone()),
            _ => None,
        };
        self.nodes[&at].notices.iter().filter_map(reason).collect()
    }
}

#[test]
fn a_request_that_is_not_committed_fails_after_its_time() {
    let mut cluster = Cluster::new(3, |_| {});
    cluster.settle();
    let leader = cluster.leader().expect("somebody leads");
    (1..=3).filter(|id| *id != leader).for_each(|id| cluster.stop(id));
    let put = pb::PutRequest { key: "key".into(), ..Default::default() };
    let begin = cluster.now_ns;
    let token = cluster.begin(leader, CommandKind::Put, &put);
    while !cluster.answers.contains_key(&token) {
        cluster.step();
    }
    let answer = cluster.answers.remove(&token);
    assert!(matches!(answer, Some(Answer::Failed(error)) if error.to_string().contains("request timed out")));
    // Five seconds and two election timeouts, as a tick finds it.
    let ticks = (cluster.now_ns - begin) / TICK_NS;
    let expected = 5_000_000_000 / TICK_NS + 2 * 10;
    assert!((expected..=expected + 1).contains(&ticks), "{ticks} ticks");
}
