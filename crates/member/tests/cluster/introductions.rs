//! Peers say where they listen, also to members that know them under other URLs, or that repair their logs.

use member::peer_message::PeerMessage;
use member::{Input, MembershipRequest, Notice};

use crate::membership::{joins, url};
use crate::recovery::one_hurt;
use crate::rig::Cluster;

fn introduction(id: u64, at: u64) -> Input {
    let bytes = PeerMessage::Introduction { id, peer_urls: vec![url(at)] }.encode().concat();
    Input::Frame { from: id, bytes: bytes.into() }
}

fn introduced(cluster: &Cluster, at: u64) -> Vec<(u64, Vec<String>)> {
    cluster.nodes[&at].membership.as_ref().map(|all| all.introduced.clone()).unwrap_or_default()
}

/// It knows the old URLs alone, and may lead: the moved member must be able to get its answers.
#[test]
fn a_member_that_was_away_while_another_was_moved_dials_it_where_it_is_now() {
    let mut cluster = Cluster::new(3, joins);
    cluster.put("before", "1");
    cluster.settle();
    let away = cluster.follower();
    let moved = (1..=3).find(|id| *id != away).expect("one is left");
    cluster.stop(away);
    let request = MembershipRequest::Update { id: moved, peer_urls: vec![url(40)] };
    cluster.change(moved, &request).expect("it is moved");
    // Entries do not reach it for now, the introduction does.
    cluster.hold = Some(away);
    cluster.start(away);
    cluster.run(5);
    cluster.give(away, introduction(moved, 40));
    cluster.run(5);
    assert_eq!(introduced(&cluster, away), [(moved, vec![url(40)])]);
    cluster.give(away, introduction(moved, 40));
    cluster.hold = None;
    cluster.held.clear();
    cluster.settle();
    cluster.run(5);
    assert_eq!(introduced(&cluster, away), [], "the state says so now");
    // What the state says already is no news.
    cluster.give(away, introduction(moved, 40));
    cluster.run(5);
    assert_eq!(introduced(&cluster, away), []);
}

#[test]
fn a_member_that_repairs_its_log_hears_introductions_and_says_whom_it_waits_for() {
    let (mut cluster, hurt) = one_hurt(3, &["key20"]);
    let others: Vec<u64> = (1..=3).filter(|id| *id != hurt).collect();
    others.iter().for_each(|id| cluster.stop(*id));
    cluster.start(hurt);
    cluster.give(hurt, introduction(4, 4));
    cluster.run(5);
    assert_eq!(introduced(&cluster, hurt), [(4, vec![url(4)])]);
    let told = |cluster: &Cluster| {
        let text = |notice: &Notice| match notice {
            Notice::Failure { text } => text.contains("does not take part yet").then(|| text.clone()),
            _ => None,
        };
        cluster.nodes[&hurt].notices.iter().find_map(text)
    };
    cluster.until("a notice names them", |cluster| told(cluster).is_some());
    let text = told(&cluster).expect("it is there");
    assert!(text.contains(&format!("({:x}, {:x})", others[0], others[1])), "{text}");
    // The new member has the entry, and is a peer like the others.
    cluster.give(hurt, Input::PeerUp(4));
    cluster.hold = Some(4);
    cluster.run(200);
    cluster.start(others[0]);
    cluster.start(others[1]);
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn a_bounded_number_of_unknown_peers_is_dialled() {
    let mut cluster = Cluster::new(3, joins);
    cluster.settle();
    (4..=70).for_each(|id| cluster.give(1, introduction(id, id)));
    cluster.run(5);
    let dialled = introduced(&cluster, 1);
    assert_eq!((dialled.len(), dialled.last()), (64, Some(&(67, vec![url(67)]))));
    // One that is dialled may move.
    cluster.give(1, introduction(67, 90));
    cluster.give(1, introduction(70, 70));
    cluster.run(5);
    let dialled = introduced(&cluster, 1);
    assert_eq!((dialled.len(), dialled.last()), (64, Some(&(67, vec![url(90)]))));
}
