//! What it costs to look up a caller and decide what it may read, with few and with many users and roles.
//!
//! The third measurement takes all 10,000 users in turn: each look-up then waits for memory that was not used since
//! 9,999 others, so it also shows how large the processor's caches are. The second one has ten of them call.
//!
//! `cargo bench -p stele-store --bench auth`.

use std::hint::black_box;
use std::sync::Arc;

use api::authpb;
use api::etcdserverpb as pb;
use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use store::{
    AuthCommand, BatchContext, Caller, Command, Damaged, Limits, Reader, Store, TokenLookup, ValueRef, Values,
};

/// Ranges of each role.
const RANGES: u32 = 10;

/// Values that are not there.
struct NoValues;

impl Values for NoValues {
    fn read(&self, value: &ValueRef) -> Result<Bytes, Damaged> {
        let ValueRef { address, len, .. } = *value;
        let reason = "a benchmark has no values".into();
        Err(Damaged { key: None, address, len, reason, is_transient: false })
    }

    fn retain(&self, _: &ValueRef) {}

    fn release(&self, _: &ValueRef) {}
}

fn key(user: u32, range: u32) -> Bytes {
    format!("/app/{user:05}/{range:02}/").into()
}

/// A store in which each of so many users has a role of its own, and a token.
fn with_users(count: u32) -> Reader {
    let (mut store, reader) = Store::new(Arc::new(NoValues), Limits::default());
    let mut commands = vec![user_add("root".into()), grant("root".into(), "root".into())];
    for user in 0..count {
        let (name, role) = (format!("user{user}"), format!("role{user}"));
        commands.push(AuthCommand::RoleAdd(pb::AuthRoleAddRequest { name: role.clone() }));
        commands.extend((0..RANGES).map(|range| permit(&role, user, range)));
        commands.extend([user_add(name.clone()), grant(name, role)]);
    }
    commands.push(AuthCommand::Enable);
    apply(&mut store, 1, commands);
    let checked_revision = reader.auth_revision();
    let authenticate = |user: u32| AuthCommand::Authenticate {
        name: format!("user{user}"),
        checked_revision,
        token: Some(token(user)),
    };
    apply(&mut store, 2, (0..count).map(authenticate).collect());
    reader
}

fn token(user: u32) -> [u8; 32] {
    let mut token = [7; 32];
    token[..4].copy_from_slice(&user.wrapping_mul(0x9E37_79B1).to_le_bytes());
    token[31] = user as u8;
    token
}

fn user_add(name: String) -> AuthCommand {
    AuthCommand::UserAdd(pb::AuthUserAddRequest { name, ..Default::default() })
}

fn grant(user: String, role: String) -> AuthCommand {
    AuthCommand::UserGrantRole(pb::AuthUserGrantRoleRequest { user, role })
}

fn permit(role: &str, user: u32, range: u32) -> AuthCommand {
    let perm_type = authpb::permission::Type::Readwrite as i32;
    // A prefix: "0" follows "/". Ranges that touch would be merged.
    let key = key(user, range);
    let range_end = [&key[..key.len() - 1], b"0"].concat().into();
    let perm = Some(authpb::Permission { perm_type, key, range_end });
    AuthCommand::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest { name: role.to_owned(), perm })
}

fn apply(store: &mut Store, index: u64, commands: Vec<AuthCommand>) {
    let callers = vec![Caller::Internal; commands.len()];
    let context = BatchContext { callers, ..BatchContext::at(index, 1) };
    let commands = commands.into_iter().map(Command::Auth).collect();
    store.apply_batch(context, commands).expect("nothing is compared");
}

fn benches(c: &mut Criterion) {
    for (count, calling) in [(10, 10), (10_000, 10), (10_000, 10_000)] {
        let reader = with_users(count);
        let mut next = 0;
        c.bench_function(&format!("decide a get, {calling} of {count} users call"), |b| {
            b.iter(|| {
                next = (next + 7919) % calling;
                // Those that call are not neighbours.
                let user = next * (count / calling);
                let found = reader.token(&token(user), 2, 1, 300);
                let TokenLookup::User { name, revision } = found else { panic!("no such token") };
                let caller = Caller::User { name, revision };
                let start = key(user, 5);
                black_box(reader.check_range(&caller, &start, &[])).expect("it is permitted");
                black_box(reader.check_unchanged(&caller)).expect("nothing changes");
            })
        });
    }
}

criterion_group! {
    name = auth;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(2));
    targets = benches
}
criterion_main!(auth);
