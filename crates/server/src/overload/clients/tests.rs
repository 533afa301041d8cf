//! Rates, debts, open calls, and a table that stays bounded.

use super::*;

const NONE: ClientLimits = ClientLimits { request_rate: 0, bytes_rate: 0, streams: 0 };

fn user(name: &str) -> ClientName {
    ClientName::User(name.into())
}

/// Admits a call that ends at once; the limit and the milliseconds of the hint if it is refused.
fn admit(
    accounts: &ClientAccounts,
    client: &ClientName,
    limits: ClientLimits,
    now: Instant,
) -> Result<(), (ExceededLimit, u128)> {
    let admitted = accounts.admit(client.clone(), limits, now);
    admitted.map(drop).map_err(|(limit, wait)| (limit, wait.as_millis()))
}

#[test]
fn requests_come_back_at_their_rate_and_each_client_has_its_own() {
    let (accounts, begin) = (ClientAccounts::default(), Instant::now());
    let limits = ClientLimits { request_rate: 10, ..NONE };
    let (ann, ben) = (user("ann"), user("ben"));
    for _ in 0..10 {
        assert_eq!(admit(&accounts, &ann, limits, begin), Ok(()));
    }
    assert_eq!(admit(&accounts, &ann, limits, begin), Err((ExceededLimit::Requests, 100)));
    assert_eq!(admit(&accounts, &ben, limits, begin), Ok(()), "another client");
    let later = begin + Duration::from_millis(250);
    assert_eq!(admit(&accounts, &ann, limits, later), Ok(()));
    assert_eq!(admit(&accounts, &ann, limits, later), Ok(()));
    assert_eq!(admit(&accounts, &ann, limits, later), Err((ExceededLimit::Requests, 50)));
    assert_eq!(admit(&accounts, &ann, NONE, later), Ok(()), "the limit was taken away");
    let raised = ClientLimits { request_rate: 1_000, ..NONE };
    assert_eq!(admit(&accounts, &ann, raised, later), Ok(()), "or raised");
}

#[test]
fn bytes_are_paid_back_before_the_next_call() {
    let (accounts, begin) = (ClientAccounts::default(), Instant::now());
    let limits = ClientLimits { bytes_rate: 1_000, ..NONE };
    let ann = user("ann");
    let call = accounts.admit(ann.clone(), limits, begin).expect("a full bucket");
    call.account().charge(2_500);
    drop(call);
    assert_eq!(admit(&accounts, &ann, limits, begin), Err((ExceededLimit::Bytes, 1_500)));
    let later = begin + Duration::from_millis(1_500);
    let call = accounts.admit(ann.clone(), limits, later).expect("it is paid");
    call.account().charge(usize::MAX);
    drop(call);
    assert_eq!(
        admit(&accounts, &ann, limits, later),
        Err((ExceededLimit::Bytes, 60_000)),
        "a debt is bounded"
    );
    let unlimited = accounts.admit(ann.clone(), NONE, later).expect("no limit");
    unlimited.account().charge(1 << 30);
    assert_eq!(admit(&accounts, &ann, limits, later + Duration::from_secs(60)), Ok(()), "nor charged then");
}

#[test]
fn open_calls_count_until_they_end() {
    let (accounts, now) = (ClientAccounts::default(), Instant::now());
    let limits = ClientLimits { streams: 2, ..NONE };
    let ann = user("ann");
    let open: Vec<OpenCall> = (0..2).flat_map(|_| accounts.admit(ann.clone(), limits, now)).collect();
    assert_eq!(open.len(), 2);
    assert_eq!(admit(&accounts, &ann, limits, now), Err((ExceededLimit::Streams, 1_000)));
    assert_eq!(
        admit(&accounts, &ann, limits, now),
        Err((ExceededLimit::Streams, 1_000)),
        "a refusal holds nothing"
    );
    drop(open);
    assert_eq!(admit(&accounts, &ann, limits, now), Ok(()));
}

#[test]
fn the_table_forgets_idle_clients_and_no_others() {
    let (accounts, begin) = (ClientAccounts::default(), Instant::now());
    let limits = ClientLimits { request_rate: 1, ..NONE };
    let named = |number: usize| user(&number.to_string());
    let held = accounts.admit(named(0), limits, begin).ok();
    for number in 1..MAX_CLIENTS {
        assert_eq!(admit(&accounts, &named(number), limits, begin), Ok(()));
    }
    assert_eq!(admit(&accounts, &user("x"), limits, begin), Ok(()), "of the account of those without room");
    assert_eq!(
        admit(&accounts, &user("y"), limits, begin),
        Err((ExceededLimit::Requests, 1_000)),
        "which they share"
    );
    let later = begin + 2 * SWEEP_INTERVAL;
    assert_eq!(admit(&accounts, &user("x"), limits, later), Ok(()));
    assert_eq!(accounts.table.lock().accounts.len(), 2, "the one with an open call, and the new one");
    drop(held);
    let long = ClientName::Certificate("n".repeat(MAX_NAME_BYTES + 1).into());
    assert_eq!(admit(&accounts, &long, limits, later), Ok(()));
    assert_eq!(accounts.table.lock().accounts.len(), 2, "a long name is not kept");
}
