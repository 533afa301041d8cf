//! Refused handshakes: which side refuses, and what both sides learn.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use transport::{
    ANSWER_BYTES, HELLO_BYTES, HandshakeAnswer, Hello, PeerIdentity, PeersConfig, Refusal, RefusalReason,
    Side, StreamClass, StreamKind,
};

use crate::cluster::{Member, PATIENCE, identity};

/// Says hello as anyone we like; returns what the member answers.
fn greet(member: &Member, hello: Hello) -> (TcpStream, HandshakeAnswer) {
    let mut stream = TcpStream::connect(member.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&hello.encode()).unwrap();
    let mut bytes = [0; ANSWER_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    let mut text = vec![0; HandshakeAnswer::text_length(&bytes).unwrap()];
    stream.read_exact(&mut text).unwrap();
    (stream, HandshakeAnswer::decode(&bytes, &text).unwrap())
}

#[test]
fn a_hello_that_does_not_belong_is_refused_by_its_reason() {
    let member = Member::start(1);
    let barred = Refusal::new(RefusalReason::RemovedMember, "member 5 was removed");
    member.journal.change(|seen| seen.barred.insert(5, barred));
    let good = Hello::new(identity(2), 1, StreamKind::Messages(StreamClass::Bulk));
    let from = |from| Hello { from, ..good };
    let cases = [
        (
            from(PeerIdentity { cluster_id: 7, ..identity(2) }),
            RefusalReason::WrongCluster,
            "cluster 7 was met, expected c1 (a forced cluster shows another number than its id); a member that is to \
             join needs an empty data directory and the flags of `member add`",
        ),
        (Hello { to: 9, ..good }, RefusalReason::WrongMember, "this is member 1, not 9"),
        (from(identity(1)), RefusalReason::WrongMember, "member 1 cannot be its own peer"),
        (from(identity(5)), RefusalReason::RemovedMember, "member 5 was removed"),
        (
            from(PeerIdentity { incarnation: 1, ..identity(2) }),
            RefusalReason::WrongIncarnation,
            "the member was wiped",
        ),
        (
            Hello { min_version: 8, max_version: 9, ..good },
            RefusalReason::VersionTooNew,
            "you speak the peer protocol in versions 8 to 9, this member 2 to 5",
        ),
        (
            Hello { min_version: 1, max_version: 1, ..good },
            RefusalReason::VersionTooOld,
            "you speak the peer protocol in versions 1 to 1, this member 2 to 5",
        ),
    ];
    for (hello, reason, text) in cases {
        let (mut stream, answer) = greet(&member, hello);
        let refusal = Refusal::new(reason, text);
        assert_eq!(answer.verdict.as_ref(), Err(&refusal));
        assert_eq!(answer.from, identity(1));
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed after a refusal");
        let reported = (hello.from.member_id, Side::Local, refusal);
        drop(member.journal.wait_for("the refusal as an event", |seen| seen.refusals.contains(&reported)));
    }
    let (_stream, answer) = greet(&member, good);
    assert_eq!(answer.verdict, Ok(transport::MAX_VERSION));
}

#[test]
fn a_dialler_that_is_refused_learns_why_and_is_let_in_when_that_changes() {
    let mut config = PeersConfig::new(identity(1));
    config.timeouts.refused = Duration::from_millis(5);
    let (a, b) = (Member::configured(config), Member::start(2));
    let unknown = Refusal::new(RefusalReason::UnknownMember, "member 1 is not known here (yet)");
    b.journal.change(|seen| seen.barred.insert(1, unknown.clone()));
    a.peers.set(2, &b.url()).unwrap();
    let reported = (2, Side::Remote, unknown);
    drop(a.journal.wait_for("a refusal", |seen| seen.refusals.contains(&reported)));
    let seen = a.journal.wait_for("nothing", |_| true);
    assert!(seen.ups.is_empty());
    drop(seen);
    b.journal.change(|seen| seen.barred.clear());
    a.journal.wait_up(2, 1);
}

/// Of five refusals, three are of one of the two streams. The first of the two delays between them may be cut short, as
/// the URLs were set; the second one is not.
#[test]
fn a_dialler_that_is_refused_waits_before_it_dials_again() {
    let delay = Duration::from_millis(300);
    let mut config = PeersConfig::new(identity(1));
    config.timeouts.refused = delay;
    let (a, b) = (Member::configured(config), Member::start(2));
    let unknown = Refusal::new(RefusalReason::UnknownMember, "member 1 is not known here (yet)");
    b.journal.change(|seen| seen.barred.insert(1, unknown));
    let began = Instant::now();
    a.peers.set(2, &b.url()).unwrap();
    drop(a.journal.wait_for("five refusals", |seen| seen.refusals.len() >= 5));
    let passed = began.elapsed();
    assert!(passed >= delay, "five refusals in {passed:?}");
}

#[test]
fn an_acceptor_that_is_not_who_was_meant_is_refused_by_the_dialler() {
    let (a, b) = (Member::start(1), Member::start(2));
    let wiped = Refusal::new(RefusalReason::WrongIncarnation, "member 2 was wiped");
    a.journal.change(|seen| seen.barred.insert(2, wiped.clone()));
    a.peers.set(2, &b.url()).unwrap();
    a.peers.set(3, &b.url()).unwrap();
    let by_us = (2, Side::Local, wiped);
    let by_them = (3, Side::Remote, Refusal::new(RefusalReason::WrongMember, "this is member 2, not 3"));
    let seen = a
        .journal
        .wait_for("both refusals", |seen| seen.refusals.contains(&by_us) && seen.refusals.contains(&by_them));
    assert!(seen.ups.is_empty());
}

#[test]
fn a_refusal_by_another_than_the_member_that_was_meant_does_not_count() {
    let mut config = PeersConfig::new(identity(1));
    config.timeouts.refused = Duration::from_millis(5);
    let a = Member::configured(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    a.peers.set(2, &[url]).unwrap();
    let said = Refusal::new(RefusalReason::RemovedMember, "member 1 was removed");
    let strangers = [
        PeerIdentity { cluster_id: identity(2).cluster_id + 1, ..identity(2) },
        PeerIdentity { incarnation: 1, ..identity(2) },
        identity(4),
        identity(2),
    ];
    for from in strangers {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; HELLO_BYTES]).unwrap();
        let answer = HandshakeAnswer { from, verdict: Err(said.clone()) };
        stream.write_all(&answer.encode()).unwrap();
    }
    let by_them = (2, Side::Remote, said);
    let seen = a.journal.wait_for("a refusal", |seen| seen.refusals.contains(&by_them));
    let locally = seen.refusals.iter().take_while(|seen| **seen != by_them);
    assert!(locally.clone().count() >= 2 && locally.clone().all(|(_, side, _)| *side == Side::Local));
}

#[test]
fn a_peer_of_an_older_release_is_refused_once_the_owner_needs_a_newer_one() {
    let member = Member::start(1);
    let older = Hello { max_version: 2, ..Hello::new(identity(2), 1, StreamKind::Snapshot) };
    assert_eq!(greet(&member, older).1.verdict, Ok(2));
    member.journal.change(|seen| seen.min_version = 3);
    let refusal = greet(&member, older).1.verdict.expect_err("it does not speak version 3");
    assert_eq!(refusal.reason, RefusalReason::VersionTooOld);
    assert_eq!(refusal.text, "you speak the peer protocol in versions 2 to 2, this member 3 to 5");
}

#[test]
fn a_barred_peer_does_not_come_back_although_the_owner_would_admit_it() {
    let member = Member::start(1);
    let hello = Hello::new(identity(2), 1, StreamKind::Messages(StreamClass::Bulk));
    let (mut before, answer) = greet(&member, hello);
    assert!(answer.verdict.is_ok());
    member.peers.bar(2);
    assert_eq!(before.read(&mut [0]).unwrap_or(0), 0, "its connection ends");
    // The handshake of this one is admitted, as if it had begun before; its connection ends before an answer.
    let mut late = TcpStream::connect(member.address).unwrap();
    late.set_read_timeout(Some(PATIENCE)).unwrap();
    late.write_all(&hello.encode()).unwrap();
    assert_eq!(late.read(&mut [0]).unwrap_or(0), 0);
    assert!(member.peers.set(2, &["http://127.0.0.1:1".to_owned()]).is_err(), "nor is it dialled");
}
