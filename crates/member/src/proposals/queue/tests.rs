//! Limits and order.
use super::*;
use bytes::Bytes;

fn command(sequence: u64, body: usize) -> LogCommand {
    LogCommand {
        origin: Origin { member: 1, run: 1 },
        sequence,
        kind: CommandKind::Put,
        auth: Bytes::new(),
        body: vec![0; body].into(),
    }
}

#[test]
fn a_batch_is_closed_by_count_or_bytes_and_a_giant_travels_alone() {
    let mut queue = ProposalQueue::default();
    for sequence in 0..1500 {
        queue.push(command(sequence, 8)).expect("room");
    }
    assert!(queue.waiting().is_full);
    assert_eq!(queue.take_batch().len(), MAX_COMMANDS);
    assert!(!queue.waiting().is_full, "500 are left");
    queue.push(command(1500, 2 * MAX_BYTES)).expect("room");
    queue.push(command(1501, 8)).expect("room");
    assert!(queue.waiting().is_full, "by bytes");
    assert_eq!(queue.take_batch().len(), 500);
    let giant = queue.take_batch();
    assert_eq!((giant.len(), giant[0].sequence), (1, 1500));
    queue.give_back(giant.into_iter());
    assert_eq!(queue.take_batch()[0].sequence, 1500);
    assert_eq!(queue.take_batch()[0].sequence, 1501);
    assert!(queue.is_empty() && queue.bytes == 0);
}

#[test]
fn own_commands_go_first_also_after_they_were_given_back() {
    let mut queue = ProposalQueue::default();
    queue.push(command(1, 8)).expect("room");
    queue.push_own(command(OWN_COMMAND | 2, 8));
    queue.push_own(command(OWN_COMMAND | 3, 8));
    let expected = [OWN_COMMAND | 2, OWN_COMMAND | 3, 1];
    let batch = queue.take_batch();
    assert_eq!(batch.iter().map(|c| c.sequence).collect::<Vec<_>>(), expected);
    queue.push_own(command(OWN_COMMAND | 4, 8));
    queue.give_back(batch.into_iter());
    queue.drop_own(CommandKind::Txn);
    let order: Vec<u64> = queue.take_batch().iter().map(|c| c.sequence).collect();
    assert_eq!(order, [OWN_COMMAND | 2, OWN_COMMAND | 3, OWN_COMMAND | 4, 1]);
    queue.push_own(command(OWN_COMMAND | 5, 8));
    queue.drop_own(CommandKind::Put);
    assert!(queue.is_empty() && queue.bytes == 0);
}

#[test]
fn commands_of_leases_go_ahead_of_puts_and_do_not_stop_them() {
    let grant = |sequence| LogCommand { kind: CommandKind::LeaseGrant, ..command(sequence, 8) };
    let sequences = |commands: &[LogCommand]| commands.iter().map(|c| c.sequence).collect::<Vec<_>>();
    let mut queue = ProposalQueue::default();
    for number in [command(1, 8), command(2, 8), grant(3), command(4, 8)] {
        queue.push(number).expect("room");
    }
    for (sequence, kind) in
        [(5, CommandKind::LeaseRevoke), (6, CommandKind::Compaction), (7, CommandKind::Alarm)]
    {
        queue.push(LogCommand { kind, ..command(sequence, 8) }).expect("room");
    }
    let batch = queue.take_batch();
    assert_eq!(sequences(&batch), [3, 5, 6, 7, 1, 2, 4]);
    queue.push(grant(8)).expect("room");
    queue.give_back(batch.into_iter());
    queue.drop_expired(command(0, 0).origin, &BTreeSet::from([5]));
    assert_eq!((queue.len(), sequences(&queue.take_batch())), (7, vec![3, 6, 7, 8, 1, 2, 4]));
    assert!(queue.is_empty() && queue.bytes == 0);

    (0..900).for_each(|sequence| queue.push(grant(sequence)).expect("room"));
    (1000..1010).for_each(|sequence| queue.push(command(sequence, 8)).expect("room"));
    let batch = queue.take_batch();
    assert_eq!(sequences(&batch[MAX_COMMANDS / 2..][..10]), (1000..1010).collect::<Vec<_>>());
    assert_eq!((batch.len(), queue.is_empty()), (910, true));
}

#[test]
fn a_batch_names_no_more_origins_than_its_format_can() {
    let mut queue = ProposalQueue::default();
    for run in 0..300 {
        let origin = Origin { member: 1, run };
        queue.push(LogCommand { origin, ..command(run, 8) }).expect("room");
    }
    assert_eq!(queue.take_batch().len(), MAX_ORIGINS);
    assert_eq!(queue.take_batch().len(), 45);
}

#[test]
fn expired_commands_are_dropped_and_no_others() {
    let mut queue = ProposalQueue::default();
    (0..4).for_each(|sequence| queue.push(command(sequence, 8)).expect("room"));
    queue.drop_expired(command(0, 0).origin, &BTreeSet::from([1, 3]));
    assert_eq!(queue.take_batch().iter().map(|c| c.sequence).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(queue.bytes, 0);
}

#[test]
fn commands_of_a_member_that_is_removed_stand_aside() {
    let of = |member, sequence| LogCommand { origin: Origin { member, run: 1 }, ..command(sequence, 8) };
    let sequences = |commands: &[LogCommand]| commands.iter().map(|c| c.sequence).collect::<Vec<_>>();
    let mut queue = ProposalQueue::default();
    [of(7, 1), of(9, 2)].into_iter().for_each(|command| queue.push(command).expect("room"));
    queue.set_aside(BTreeSet::from([7]));
    [of(7, 3), of(9, 4)].into_iter().for_each(|command| queue.push(command).expect("room"));
    assert_eq!(sequences(&queue.take_batch()), [2, 4]);
    assert!(queue.is_empty() && queue.bytes == 0);
    let aside = queue.take_aside();
    queue.give_back(aside.into_iter());
    queue.push(of(7, 5)).expect("room");
    assert_eq!(sequences(&queue.take_batch()), [1, 3, 5], "it was not removed");
    queue.set_aside(BTreeSet::from([7]));
    queue.push(of(7, 6)).expect("room");
    let foreign = queue.take_foreign(Origin { member: 9, run: 1 });
    assert_eq!(sequences(&foreign.into_iter().collect::<Vec<_>>()), [6]);
    assert!(queue.take_aside().is_empty());
}

#[test]
fn a_leader_may_stand_aside_itself_and_its_callers_still_expire() {
    let of = |member, sequence| LogCommand { origin: Origin { member, run: 1 }, ..command(sequence, 8) };
    let sequences = |commands: VecDeque<LogCommand>| commands.iter().map(|c| c.sequence).collect::<Vec<_>>();
    let mut queue = ProposalQueue::default();
    queue.set_aside(BTreeSet::from([1, 7]));
    queue.push_own(command(OWN_COMMAND | 1, 8));
    [of(1, 2), of(7, 3), of(9, 4), of(1, 5)].into_iter().for_each(|c| queue.push(c).expect("room"));
    assert_eq!(sequences(queue.take_batch().into()), [OWN_COMMAND | 1, 4], "it goes on to lead");
    queue.drop_expired(Origin { member: 1, run: 1 }, &BTreeSet::from([2, 3]));
    assert_eq!(sequences(queue.take_foreign(Origin { member: 1, run: 1 })), [3]);
    assert_eq!(sequences(queue.take_batch().into()), [5]);
    assert!(queue.is_empty() && queue.bytes == 0);
}

#[test]
fn what_stands_aside_counts_to_the_limits() {
    let mut queue = ProposalQueue::default();
    queue.set_aside(BTreeSet::from([1]));
    for sequence in 0..MAX_WAITING_COMMANDS as u64 {
        queue.push(command(sequence, 0)).expect("room");
    }
    assert_eq!(queue.push(command(0, 0)).expect_err("full").sequence, 0);
}

#[test]
fn a_full_queue_gives_the_command_back() {
    let mut queue = ProposalQueue::default();
    for sequence in 0..MAX_WAITING_COMMANDS as u64 {
        queue.push(command(sequence, 0)).expect("room");
    }
    assert_eq!(queue.push(command(0, 0)).expect_err("full").sequence, 0);
}

#[test]
fn the_limits_are_those_that_were_given() {
    let limits =
        QueueLimits { waiting_commands: 3, waiting_bytes: 1_000, batch_commands: 2, batch_bytes: 500 };
    let mut queue = ProposalQueue::new(limits);
    for sequence in 0..3 {
        queue.push(command(sequence, 8)).expect("room");
    }
    assert!(queue.push(command(3, 8)).is_err(), "three may wait");
    assert!(queue.waiting().is_full);
    assert_eq!((queue.take_batch().len(), queue.take_batch().len()), (2, 1), "two in a batch");
    queue.push(command(4, 400)).expect("room");
    queue.push(command(5, 400)).expect("room");
    assert!(queue.push(command(6, 400)).is_err(), "a thousand bytes may wait");
    assert_eq!(queue.take_batch().len(), 1, "a batch is closed by bytes");
}

#[test]
fn a_queue_is_full_by_its_bytes_too_wherever_they_wait() {
    // All commands share one body, so that the queue takes no memory.
    let body = Bytes::from(vec![0; 8 << 20]);
    let large = |sequence| LogCommand { body: body.clone(), ..command(sequence, 0) };
    let fitting = MAX_WAITING_BYTES / large(0).encoded_len();
    for stands_aside in [false, true] {
        let mut queue = ProposalQueue::default();
        if stands_aside {
            queue.set_aside(BTreeSet::from([1]));
        }
        let pushed = (0..100).take_while(|sequence| queue.push(large(*sequence)).is_ok()).count();
        assert_eq!(pushed, fitting, "standing aside: {stands_aside}");
        queue.push(command(100, 0)).expect("a small one fits");
        let taken = if stands_aside { queue.take_aside().len() } else { queue.take_batch().len() };
        assert!(taken > 0);
        queue.push(large(101)).expect("what was taken makes room");
    }
}
