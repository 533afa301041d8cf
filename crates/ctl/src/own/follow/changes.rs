//! What the destination must do for a change of the source.

use api::{etcdserverpb as pb, mvccpb};
use bytes::Bytes;
use pb::request_op::Request;
use prost::Message;

use super::state::FollowPosition;
use super::writer::FollowStep;

/// Bytes of the puts of one transaction while keys are copied; what etcd accepts by default is 1.5 MiB.
const MAX_STEP_BYTES: usize = 512 << 10;

/// A put of a key as the source has it, with its lease at the destination.
pub(super) fn put(kv: mvccpb::KeyValue, lease: i64) -> pb::RequestOp {
    let put = pb::PutRequest { key: kv.key, value: kv.value, lease, ..Default::default() };
    pb::RequestOp { request: Some(Request::RequestPut(put)) }
}

/// A delete of a key.
pub(super) fn delete(key: Bytes) -> pb::RequestOp {
    let delete = pb::DeleteRangeRequest { key, ..Default::default() };
    pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}

/// Steps for the changes of one revision of the source: one, unless they are more than a transaction may have. All but
/// the last leave the position at the revision before, so that an interruption repeats them.
pub(super) fn steps_of_revision(
    operations: Vec<pb::RequestOp>,
    revision: i64,
    max_operations: usize,
) -> Vec<FollowStep> {
    let copied = |revision| FollowPosition::Copied { revision };
    if operations.len() <= max_operations {
        return vec![FollowStep { operations, position: copied(revision) }];
    }
    let mut steps: Vec<FollowStep> = operations
        .chunks(max_operations)
        .map(|chunk| FollowStep { operations: chunk.to_vec(), position: copied(revision - 1) })
        .collect();
    if let Some(last) = steps.last_mut() {
        last.position = copied(revision);
    }
    steps
}

/// Collects the changes of a copy into steps of bounded size.
pub(super) struct StepCollector {
    revision: i64,
    max_operations: usize,
    operations: Vec<pb::RequestOp>,
    bytes: usize,
    last: Bytes,
    steps: Vec<FollowStep>,
    collected_bytes: usize,
}

impl StepCollector {
    /// For a copy of the keys at a revision.
    pub(super) fn new(revision: i64, max_operations: usize) -> Self {
        Self {
            revision,
            max_operations,
            operations: Vec::new(),
            bytes: 0,
            last: Bytes::new(),
            steps: Vec::new(),
            collected_bytes: 0,
        }
    }

    /// Adds a change of the next key.
    pub(super) fn add(&mut self, key: Bytes, operation: pb::RequestOp) {
        let bytes = operation.encoded_len();
        if self.operations.len() >= self.max_operations
            || !self.operations.is_empty() && self.bytes + bytes > MAX_STEP_BYTES
        {
            self.close_step();
        }
        self.bytes += bytes;
        self.collected_bytes += bytes;
        self.operations.push(operation);
        self.last = key;
    }

    fn close_step(&mut self) {
        let position = FollowPosition::Copying { revision: self.revision, last: self.last.clone() };
        let operations = std::mem::take(&mut self.operations);
        self.bytes = 0;
        self.steps.push(FollowStep { operations, position });
    }

    /// Takes the steps that are whole, if there are many or their bytes are.
    pub(super) fn take_many(&mut self, many: usize, many_bytes: usize) -> Vec<FollowStep> {
        if self.steps.len() < many && self.collected_bytes < many_bytes {
            return Vec::new();
        }
        self.collected_bytes = self.bytes;
        std::mem::take(&mut self.steps)
    }

    /// The rest; after it, all keys are as they were at the revision.
    pub(super) fn finish(mut self) -> Vec<FollowStep> {
        let position = FollowPosition::Copied { revision: self.revision };
        let operations = std::mem::take(&mut self.operations);
        self.steps.push(FollowStep { operations, position });
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puts(count: usize) -> Vec<pb::RequestOp> {
        (0..count).map(|_| put(mvccpb::KeyValue::default(), 0)).collect()
    }

    #[test]
    fn a_revision_is_one_step_unless_it_has_too_many_changes() {
        let copied = |revision| FollowPosition::Copied { revision };
        let shape = |steps: Vec<FollowStep>| -> Vec<(usize, FollowPosition)> {
            steps.into_iter().map(|step| (step.operations.len(), step.position)).collect()
        };
        assert_eq!(shape(steps_of_revision(puts(127), 9, 127)), [(127, copied(9))]);
        assert_eq!(shape(steps_of_revision(puts(0), 9, 127)), [(0, copied(9))]);
        let split = [(127, copied(8)), (127, copied(8)), (1, copied(9))];
        assert_eq!(shape(steps_of_revision(puts(255), 9, 127)), split);
    }

    #[test]
    fn copied_keys_make_steps_of_bounded_size_that_know_their_last_key() {
        let mut collector = StepCollector::new(5, 2);
        for number in 0..5 {
            let key = Bytes::from(number.to_string());
            collector.add(key.clone(), delete(key));
        }
        assert!(collector.take_many(3, usize::MAX).is_empty());
        let steps = collector.take_many(2, usize::MAX);
        let last = |step: &FollowStep| step.position.clone();
        assert_eq!(last(&steps[1]), FollowPosition::Copying { revision: 5, last: Bytes::from("3") });
        let rest = collector.finish();
        assert_eq!((rest.len(), rest[0].operations.len()), (1, 1));
        assert_eq!(last(&rest[0]), FollowPosition::Copied { revision: 5 });
    }

    #[test]
    fn large_values_make_steps_of_few_keys() {
        let mut collector = StepCollector::new(5, 100);
        for number in 0..3 {
            let value = vec![0; MAX_STEP_BYTES - 100].into();
            let key = Bytes::from(number.to_string());
            collector.add(key.clone(), put(mvccpb::KeyValue { key, value, ..Default::default() }, 0));
        }
        let steps = collector.finish();
        assert!(steps.iter().all(|step| step.operations.len() == 1) && steps.len() == 3);
    }
}
