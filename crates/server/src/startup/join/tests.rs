//! What fits, what an operator reads about what does not, and how many must say the same.
use super::*;

const INITIAL: [(&str, &str); 3] = [("m1", "http://a:1"), ("m2", "http://b:1"), ("m3", "http://c:1")];

fn flags(members: &[(&str, &str)]) -> Vec<(String, Vec<Url>)> {
    let member = |(name, url): &(&str, &str)| (name.to_string(), vec![Url::parse(url).expect("a URL")]);
    members.iter().map(member).collect()
}

fn listed(id: u64, name: &str, url: &str) -> ListedMember {
    ListedMember { id, name: name.to_owned(), peer_urls: vec![url.to_owned()], is_learner: false }
}

fn find(name: &str, initial: &[(&str, &str)], members: &[ListedMember]) -> Result<JoinedCluster, Misfit> {
    let same_machine = |url: &str| match url {
        "http://a:1" | "http://alias:1" => vec![SocketAddr::from(([10, 0, 0, 1], 1))],
        _ => Vec::new(),
    };
    find_own(name, &flags(initial), (7, 0), members.to_vec(), &same_machine)
}

/// The answer about `m3`, which has `id` and `name`.
fn about_third(id: u64, name: &str) -> Result<JoinedCluster, Misfit> {
    let first = [listed(1, "m1", "http://a:1"), listed(2, "m2", "http://b:1")];
    find("m3", &INITIAL, &[&first[..], &[listed(id, name, "http://c:1")]].concat())
}

#[test]
fn a_member_finds_itself_by_its_urls() {
    let initial = [("m1", "http://alias:1"), ("m2", "http://b:1")];
    let joined = find("m2", &initial, &[listed(1, "m1", "http://a:1"), listed(2, "", "http://b:1")]);
    let joined = joined.expect("it fits");
    assert_eq!((joined.cluster_id, joined.member_id, joined.members.len()), (7, 2, 2));
    assert_eq!(joined.members[0].peer_urls, ["http://a:1"], "the cluster's own URLs count");
}

#[test]
fn what_does_not_fit_is_named() {
    let initial = [("m1", "http://a:1"), ("m2", "http://b:1")];
    let error = |members: &[ListedMember]| match find("m2", &initial, members).expect_err("no fit") {
        Misfit::Started(_, error) | Misfit::Other(error) => error,
    };
    assert!(
        error(&[listed(1, "m1", "http://a:1")]).starts_with("member count is unequal: the cluster has 1")
    );
    let other = error(&[listed(1, "m1", "http://a:1"), listed(2, "", "http://c:1")]);
    assert_eq!(other, "PeerURLs: no match found for existing member (2, [\"http://c:1\"])");
    let started = error(&[listed(1, "m1", "http://a:1"), listed(2, "m2", "http://b:1")]);
    assert!(started.starts_with("member 2 has been started before, as \"m2\""), "{started}");
}

#[test]
fn half_of_the_voters_must_say_the_same() {
    let joined = about_third(3, "").expect("it fits");
    let forced = JoinedCluster { lineage: 51, ..joined.clone() };
    let mut answers = Answers::default();
    answers.add("m1", Ok(joined.clone()));
    answers.add("m2", Ok(forced));
    assert_eq!(answers.verdict(), None, "one of them is of another lineage");
    let text = "the same members must be listed by 2 of the voters, and are by 1: start the others first";
    assert_eq!(answers.shortage(), text);
    answers.add("m2", Ok(joined.clone()));
    assert_eq!(answers.verdict(), Some(Ok(joined.clone())));
    // As a learner it is in no quorum, and neither is another learner.
    let voters: BTreeSet<String> = ["m1".to_owned()].into();
    let learner = JoinedCluster { voters, ..joined };
    let mut answers = Answers::default();
    answers.add("m2", Ok(learner.clone()));
    assert_eq!(answers.verdict(), None);
    answers.add("m1", Ok(learner.clone()));
    assert_eq!(answers.verdict(), Some(Ok(learner)));
}

#[tokio::test(start_paused = true)]
async fn members_that_do_not_answer_hold_up_no_other() {
    let names = ["m1", "m2", "m4", "m5"];
    let joined = about_third(3, "").expect("it fits");
    let (began, asked) = (Instant::now(), std::cell::Cell::new(0));
    let found = gather(&names, |name| {
        let answer = match name {
            "m1" => Some(about_third(3, "")),
            // It has not applied the addition when it is asked first.
            "m2" if asked.replace(asked.get() + 1) == 0 => Some(Err(Misfit::Other("too few".to_owned()))),
            "m2" => Some(about_third(3, "")),
            _ => None,
        };
        async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    });
    assert_eq!(found.await, Ok(joined));
    assert_eq!(began.elapsed(), ROUND_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_answers_has_an_end() {
    let began = Instant::now();
    let silent = gather(&["m1", "m2"], |_| std::future::pending());
    assert_eq!(silent.await, Err("no answer from m1, m2".to_owned()));
    assert_eq!(began.elapsed(), MAX_WAIT);
    let one = gather(&["m1", "m2"], |name| async move {
        if name == "m1" { about_third(3, "") } else { std::future::pending().await }
    });
    assert!(one.await.expect_err("one of two").contains("are by 1"));
    assert_eq!(began.elapsed(), 2 * MAX_WAIT);
    let unfit = gather(&["m1"], |_| async { Err(Misfit::Other("it does not fit".to_owned())) });
    assert_eq!(unfit.await, Err("it does not fit".to_owned()));
    assert_eq!(began.elapsed(), 2 * MAX_WAIT, "waiting does not help");
    assert!(gather(&[], |_| std::future::pending()).await.is_err(), "there is no member to ask");
}

#[test]
fn a_member_that_one_lists_as_started_does_not_join_whatever_others_say() {
    let is_refused = |order: [&str; 2]| {
        let mut answers = Answers::default();
        order.iter().zip(["m1", "m2"]).for_each(|(name, from)| answers.add(from, about_third(3, name)));
        matches!(answers.verdict(), Some(Err(error)) if error.contains("has been started before"))
    };
    assert!(is_refused(["m3", ""]), "an answer that lags comes later");
    assert!(is_refused(["", "m3"]));
    // The third one was replaced: an old answer about the id of its predecessor is no reason.
    let mut answers = Answers::default();
    answers.add("m1", about_third(3, "m3"));
    answers.add("m2", about_third(4, ""));
    assert_eq!(answers.verdict(), None, "{}", answers.shortage());
}

#[tokio::test]
async fn a_long_list_of_members_is_not_read() {
    let list = |bytes: usize| format!("[{{\"id\":7}}{}]", " ".repeat(bytes - 10));
    let read = async |bytes| read_list(list(bytes).into()).await.map(|members| members[0].id);
    assert_eq!(read(4 << 20).await, Ok(7));
    assert_eq!(read((4 << 20) + 1).await, Err("length limit exceeded".to_owned()));
}
