//! How much is read for peers at the same time.

use super::super::serving::{MAX_RUNNING_READS, RepairServer};
use super::super::values::name_of;
use super::take_sent;
use crate::io::Output;
use crate::peer_message::PeerMessage;
use crate::tests::LogAndStore;

#[test]
fn beyond_so_many_reads_a_peer_hears_that_it_must_ask_another() {
    let mut state = LogAndStore::new(&[1, 2]);
    state.put("key", "value");
    let name = name_of(&state.reference("key"));
    let index = state.log.last_index();
    let term = state.log.term(index).expect("the last entry is there");
    let (mut server, mut out) = (RepairServer::default(), Output::default());
    let ask = |server: &mut RepairServer, out: &mut Output| {
        server.entry_asked(2, (index, term), &state.log, out);
        server.value_asked(2, name.clone(), &state.log, &state.reader, &state.values, out);
    };
    for _ in 0..MAX_RUNNING_READS / 2 {
        ask(&mut server, &mut out);
    }
    assert_eq!((out.background.len(), out.frames.len()), (MAX_RUNNING_READS, 0));
    ask(&mut server, &mut out);
    assert_eq!(out.background.len(), MAX_RUNNING_READS, "no more are read");
    let without = PeerMessage::EntryAnswer { index, term, entry: None };
    let answers = take_sent(&mut out);
    assert_eq!(answers, [(2, without.clone()), (2, PeerMessage::ValueAnswer(name.clone(), None))]);
    server.read_done(2, &without, &mut out);
    server.read_done(2, &without, &mut out);
    ask(&mut server, &mut out);
    assert_eq!(out.background.len(), MAX_RUNNING_READS + 2, "there is room again");
}
