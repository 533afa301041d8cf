//! Tokens, and what checkpoints have.

use api::Error;

use super::*;
use crate::auth::tokens::{MAX_TOKENS, MAX_TOKENS_PER_USER, Tokens};
use crate::auth::{TokenHash, TokenLookup, TokenPosition};
use crate::testing::checkpoints;
use crate::{CheckpointKind, Limits, Sequential, Store};

const TTL_S: u64 = 300;

fn authenticate(bench: &mut TestStore, name: &str, token: TokenHash) -> u64 {
    let checked_revision = bench.reader.auth_revision();
    let command = AuthCommand::Authenticate { name: name.into(), checked_revision, token: Some(token) };
    bench.outcome(Command::Auth(command)).expect("the user has a password");
    bench.reader.applied().index
}

/// Ends unused tokens; returns how many holds of the lock that took.
fn expire(bench: &TestStore, now_s: u64) -> usize {
    let next = |from: &TokenPosition| bench.reader.expire_tokens(*from, now_s, TTL_S);
    std::iter::successors(Some((0, [0; 32])), next).count()
}

fn count(bench: &TestStore) -> usize {
    bench.reader.shared.state.read().auth.tokens.read().len()
}

fn user_of(bench: &TestStore, token: TokenHash, index: u64, now_s: u64) -> Option<String> {
    match bench.reader.token(&token, index, now_s, TTL_S) {
        TokenLookup::User { name, .. } => Some(name.to_string()),
        TokenLookup::NotApplied | TokenLookup::Unknown => None,
    }
}

#[test]
fn a_token_ends_with_its_user_its_password_and_auth() {
    let ends: [fn() -> AuthCommand; 3] = [
        || AuthCommand::UserDelete(pb::AuthUserDeleteRequest { name: "ann".into() }),
        || {
            let name = "ann".into();
            AuthCommand::UserChangePassword(pb::AuthUserChangePasswordRequest { name, ..Default::default() })
        },
        || AuthCommand::Disable,
    ];
    for end in ends {
        let mut bench = enabled();
        let index = authenticate(&mut bench, "ann", [1; 32]);
        assert_eq!(user_of(&bench, [1; 32], index, 5).as_deref(), Some("ann"));
        assert_eq!(user_of(&bench, [1; 32], index + 1, 5), None, "of another entry");
        assert_eq!(user_of(&bench, [2; 32], index, 5), None);
        change(&mut bench, role_add("other")).expect("added");
        assert!(user_of(&bench, [1; 32], index, 5).is_some(), "the user is as before");
        change(&mut bench, end()).expect("allowed");
        assert_eq!(user_of(&bench, [1; 32], index, 5), None);
    }
}

#[test]
fn a_token_is_kept_alive_by_use() {
    let mut bench = enabled();
    let index = authenticate(&mut bench, "ann", [1; 32]);
    let unused = authenticate(&mut bench, "ann", [2; 32]);
    expire(&bench, 10);
    assert_eq!(count(&bench), 2, "their time begins");
    assert!(user_of(&bench, [1; 32], index, 200).is_some());
    expire(&bench, 10 + TTL_S + 1);
    assert_eq!(count(&bench), 1);
    assert_eq!(user_of(&bench, [2; 32], unused, 10 + TTL_S + 1), None);
    assert!(user_of(&bench, [1; 32], index, 200 + TTL_S).is_some());
    assert_eq!(user_of(&bench, [1; 32], index, 200 + 2 * TTL_S + 1), None, "also before it is expired");
}

#[test]
fn tokens_expire_in_steps() {
    let bench = enabled();
    let hash = |number: u32| {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&number.to_be_bytes());
        hash
    };
    for number in 1..=1000 {
        bench.reader.shared.state.read().auth.tokens.write().assign(
            "ann".into(),
            hash(number),
            u64::from(number),
        );
    }
    assert_eq!(expire(&bench, 10), 4, "at most 256 in a step");
    assert!(user_of(&bench, hash(7), 7, 200).is_some());
    expire(&bench, 10 + TTL_S + 1);
    assert_eq!(count(&bench), 1);
}

#[test]
fn the_oldest_of_too_many_tokens_of_all_users_ends() {
    let mut tokens = Tokens::default();
    let hash = |number: usize| {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_le_bytes());
        hash
    };
    for number in 0..=MAX_TOKENS {
        tokens.assign(format!("user {}", number % 100).into(), hash(number), number as u64);
    }
    assert_eq!(tokens.len(), MAX_TOKENS);
    assert!(tokens.user(&hash(0), 0, 1, TTL_S).is_none());
    assert!(tokens.user(&hash(1), 1, 1, TTL_S).is_some());
    (0..100).for_each(|number| tokens.forget(&format!("user {number}")));
    assert_eq!(tokens.len(), 0);
    tokens.assign("ann".into(), hash(7), 1);
    assert!(tokens.user(&hash(7), 1, 1, TTL_S).is_some());
}

#[test]
fn a_token_of_an_entry_to_come_is_told_apart() {
    let bench = enabled();
    let next = bench.reader.applied().index + 1;
    assert_eq!(bench.reader.token(&[1; 32], next, 1, TTL_S), TokenLookup::NotApplied);
    assert_eq!(bench.reader.token(&[1; 32], next - 1, 1, TTL_S), TokenLookup::Unknown);
}

#[test]
fn the_oldest_of_too_many_tokens_of_a_user_ends() {
    let mut bench = enabled();
    let bob = authenticate(&mut bench, "bob", [9; 32]);
    let token = |number: u64| {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&number.to_le_bytes());
        token
    };
    let first = authenticate(&mut bench, "ann", token(0));
    let checked_revision = bench.reader.auth_revision();
    let again = |number: u64| {
        let token = Some(token(number));
        Command::Auth(AuthCommand::Authenticate { name: "ann".into(), checked_revision, token })
    };
    bench.apply((1..=MAX_TOKENS_PER_USER as u64).map(again).collect());
    assert_eq!(user_of(&bench, token(0), first, 1), None);
    assert!(user_of(&bench, token(1), first + 1, 1).is_some());
    assert!(user_of(&bench, [9; 32], bob, 1).is_some());
}

#[test]
fn a_password_that_was_checked_at_another_auth_revision_gives_no_token() {
    let mut bench = enabled();
    let checked_revision = bench.reader.auth_revision() - 1;
    let command = AuthCommand::Authenticate { name: "ann".into(), checked_revision, token: Some([1; 32]) };
    assert_eq!(bench.outcome(Command::Auth(command)), Err(api::Error::AuthOldRevision));
}

#[test]
fn checkpoints_have_users_and_roles_and_no_tokens() {
    let mut bench = enabled();
    bench.store.check_all();
    let index = authenticate(&mut bench, "ann", [1; 32]);
    // All members can apply commands about users: their checkpoints have them.
    bench.outcome_as(Caller::Internal, Command::CommandSet(3)).expect("recorded");
    let mut chunks: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Base).collect();
    bench.store.checkpoint_written();
    change(&mut bench, user_add("carl")).expect("added");
    chunks.extend(bench.store.begin_checkpoint(CheckpointKind::Delta));
    let secret: [u8; 32] = [1; 32];
    assert!(!chunks.concat().windows(32).any(|bytes| bytes == secret), "a token's hash is not on the disk");
    let (store, reader) =
        Store::restore(bench.values.clone(), Limits::default(), checkpoints(&chunks), &Sequential)
            .expect("it is intact");
    store.check_all();
    assert_eq!(reader.state_hash(), bench.reader.state_hash());
    assert_eq!((reader.is_auth_enabled(), reader.auth_revision()), (true, bench.reader.auth_revision()));
    assert_eq!(reader.auth_users(), ["ann", "bob", "carl", "root"]);
    assert_eq!(reader.auth_user("ann"), bench.reader.auth_user("ann"));
    assert_eq!(reader.auth_role("r"), bench.reader.auth_role("r"));
    assert_eq!(reader.token(&secret, index, 1, TTL_S), TokenLookup::Unknown);
}

#[test]
fn users_and_roles_that_change_while_a_checkpoint_is_written_are_in_it_as_they_were() {
    for kind in [CheckpointKind::Base, CheckpointKind::Delta] {
        let mut bench = enabled();
        bench.outcome_as(Caller::Internal, Command::CommandSet(3)).expect("recorded");
        let mut chunks: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Base).collect();
        bench.store.checkpoint_written();
        change(&mut bench, user_add("carl")).expect("added");
        let all = |reader: &crate::Reader| {
            let users: Vec<_> = reader.auth_users().iter().map(|name| reader.auth_user(name)).collect();
            let roles: Vec<_> = reader.auth_roles().iter().map(|name| reader.auth_role(name)).collect();
            (users, roles, reader.auth_revision(), reader.is_auth_enabled(), reader.state_hash())
        };
        let expected = all(&bench.reader);
        let source = bench.store.begin_checkpoint(kind);
        let captured = bench.reader.capture().expect("no entry is being applied");
        let user = |name: &str| pb::AuthUserDeleteRequest { name: name.into() };
        for later in [
            AuthCommand::UserDelete(user("bob")),
            revoke_role("ann", "r"),
            user_add("dora"),
            role_add("s"),
            permit("r", authpb::permission::Type::Write, "x", ""),
            AuthCommand::RoleDelete(pb::AuthRoleDeleteRequest { role: "r".into() }),
            AuthCommand::Disable,
        ] {
            change(&mut bench, later).expect("it is allowed");
            bench.store.check_all();
        }
        if kind == CheckpointKind::Base {
            chunks.clear();
        }
        chunks.extend(source);
        let (store, reader) =
            Store::restore(bench.values.clone(), Limits::default(), checkpoints(&chunks), &Sequential)
                .expect("it is intact");
        store.check_all();
        assert_eq!(all(&reader), expected, "{kind:?}");
        let captured_users: Vec<_> = captured.users.into_iter().map(Some).collect();
        let captured_roles: Vec<_> = captured.roles.into_iter().map(Some).collect();
        assert_eq!((captured_users, captured_roles), (expected.0, expected.1));
    }
}

/// However many there are, a checkpoint copies none of them in the hold of the lock in which it begins.
#[test]
fn users_and_roles_are_shared_with_a_checkpoint_that_begins() {
    let mut bench = enabled();
    let ann = |bench: &TestStore| bench.reader.shared.state.read().auth.user("ann").map(std::ptr::from_ref);
    let frozen = bench.reader.shared.state.read().auth.freeze();
    let shared = frozen.users().find(|user| user.name == "ann").map(std::ptr::from_ref);
    assert_eq!(shared, ann(&bench));
    change(&mut bench, user_add("carl")).expect("added");
    assert_eq!(shared, ann(&bench), "a change copies pointers, and not the users that it leaves alone");
    assert_eq!((frozen.users().len(), bench.reader.auth_users().len()), (3, 4));
}

/// The format is what `docs/internals/store-checkpoint.md` says, and stays it.
#[test]
fn bytes_are_those_of_format_4() {
    let mut bench = enabled();
    bench.outcome_as(Caller::Internal, Command::CommandSet(3)).expect("recorded");
    let chunks: Vec<Bytes> = bench.store.begin_checkpoint(CheckpointKind::Base).take(2).collect();
    let line = |chunk: &Bytes| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines = chunks.iter().map(line).collect::<Vec<_>>().join("\n");
    assert_eq!(lines, include_str!("../../../testdata/checkpoint_base_v4.hex").trim_end());
}

#[test]
fn replayed_commands_leave_no_tokens() {
    let mut bench = enabled();
    let index = authenticate(&mut bench, "ann", [1; 32]);
    bench.store.end_replay();
    assert_eq!(user_of(&bench, [1; 32], index, 1), None);
}

#[test]
fn a_user_sees_itself_and_nobody_sees_the_user_without_a_name() {
    let bench = enabled();
    let check = |caller: &Caller, user: &str| bench.reader.check_user_get(caller, user);
    assert_eq!(check(&user(&bench, "ann"), "ann"), Ok(()));
    assert_eq!(check(&user(&bench, "ann"), "bob"), Err(Error::PermissionDenied));
    assert_eq!(check(&user(&bench, "root"), "bob"), Ok(()));
    assert_eq!(check(&Caller::Anonymous, "ann"), Err(Error::UserEmpty));
    assert_eq!(check(&Caller::Anonymous, ""), Err(Error::UserNotFound));
}
