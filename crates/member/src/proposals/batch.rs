//! The payload of a command entry: many commands behind one header, so that all commands that wait cost one entry.
//!
//! ```text
//! offset size  field
//!      0    1  version of the command set: the oldest that has all of these commands
//!      1    1  number of origins
//!      2    2  zero
//!      4    4  number of commands
//!      8    8  wall clock of the proposer, milliseconds since 1970
//!     16 16*n  origins: member id u64, its process run u64
//! then for each command:
//!      0    1  kind
//!      1    1  origin, an index into the table above
//!      2    2  length of the auth context
//!      4    4  length of the body
//!      8    8  sequence number, counted by the origin
//!     16    -  auth context, then body
//! ```
//!
//! Numbers are little-endian. A body is the request's protobuf encoding; the store reads values straight out of it, so
//! a decoded command shares the payload's buffer. The version selects what apply does: a member that meets one it does
//! not know stops instead of guessing.
//!
//! This module knows nothing of what a command does.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::membership::command_sets::{NEWEST_COMMAND_SET, WITH_AUTH};

/// The oldest command set.
const OLDEST_VERSION: u8 = store::FIRST_COMMAND_SET;

/// A batch is closed at this many payload bytes: large enough that a flush is shared by many, small enough that a
/// heartbeat's worth of network and one flush stay short. A larger command travels alone.
pub const MAX_BYTES: usize = 1 << 20;

/// A batch is closed at this many commands; keeps one apply short.
pub const MAX_COMMANDS: usize = 1000;

/// Origins a batch can name: their table's length is one byte.
pub const MAX_ORIGINS: usize = u8::MAX as usize;

const HEADER: usize = 16;
const ORIGIN: usize = 16;
const COMMAND: usize = 16;

/// The process that a command or a question came from; only its own callers wait for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Member id.
    pub member: u64,
    /// Its *process run*: a random number that the member's process drew when it started.
    pub run: u64,
}

/// What a command asks for. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CommandKind {
    /// `etcdserverpb.PutRequest`.
    Put = 1,
    /// `etcdserverpb.DeleteRangeRequest`.
    DeleteRange = 2,
    /// `etcdserverpb.TxnRequest`.
    Txn = 3,
    /// `etcdserverpb.CompactionRequest`.
    Compaction = 4,
    /// `etcdserverpb.LeaseGrantRequest`, id filled in.
    LeaseGrant = 5,
    /// `etcdserverpb.LeaseRevokeRequest`.
    LeaseRevoke = 6,
    /// Leases the leader of a term saw run out; see [`crate::lease`].
    LeaseExpire = 7,
    /// `etcdserverpb.LeaseCheckpointRequest`: remainders recorded, or removed (0).
    LeaseCheckpoint = 8,
    /// `etcdserverpb.AlarmRequest`.
    Alarm = 9,
    /// `membershippb.ClusterVersionSetRequest`.
    ClusterVersion = 10,
    /// A member's name, client URLs and incarnation; see [`crate::publication`].
    Publish = 11,
    /// The command set, one byte; see [`crate::membership`](crate). Of set 2.
    CommandSet = 12,
    /// Users and roles; see `proposals/auth_command.rs`. Of set 3.
    Auth = 13,
    /// `membershippb.DowngradeInfoSetRequest`. Of set 4.
    DowngradeInfo = 14,
}

impl CommandKind {
    /// All kinds.
    pub const ALL: [CommandKind; 14] = [
        CommandKind::Put,
        CommandKind::DeleteRange,
        CommandKind::Txn,
        CommandKind::Compaction,
        CommandKind::LeaseGrant,
        CommandKind::LeaseRevoke,
        CommandKind::LeaseExpire,
        CommandKind::LeaseCheckpoint,
        CommandKind::Alarm,
        CommandKind::ClusterVersion,
        CommandKind::Publish,
        CommandKind::CommandSet,
        CommandKind::Auth,
        CommandKind::DowngradeInfo,
    ];

    /// The kind of a number, if there is one.
    pub fn from_number(number: u8) -> Option<CommandKind> {
        CommandKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The oldest command set that has it.
    pub(crate) fn since(self) -> u8 {
        match self {
            CommandKind::CommandSet => 2,
            CommandKind::Auth => WITH_AUTH,
            CommandKind::DowngradeInfo => store::DOWNGRADE_COMMAND_SET,
            _ => OLDEST_VERSION,
        }
    }

    /// Whether commands of this kind may make the store grow: false for what frees space or keeps the cluster running.
    /// Whether a transaction or a
    /// command about users does depends on what it asks for.
    pub fn may_grow(self) -> bool {
        matches!(self, CommandKind::Put | CommandKind::Txn | CommandKind::LeaseGrant | CommandKind::Auth)
    }
}

/// One command of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCommand {
    /// Who asked.
    pub origin: Origin,
    /// The origin's sequence number.
    pub sequence: u64,
    /// What is asked.
    pub kind: CommandKind,
    /// User and auth revision, empty without authentication.
    pub auth: Bytes,
    /// The request.
    pub body: Bytes,
}

impl LogCommand {
    /// Bytes the command takes in a batch, its origin aside.
    pub fn encoded_len(&self) -> usize {
        COMMAND + self.auth.len() + self.body.len()
    }
}

/// A decoded batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Wall clock of the proposer, milliseconds since 1970; for people, never for decisions.
    pub clock_ms: u64,
    /// The commands, in the order they apply.
    pub commands: Vec<LogCommand>,
}

/// A payload that is not a batch this release understands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Written by a release with another command set.
    #[error(
        "command set version {0} is not known here (known: {OLDEST_VERSION} to {NEWEST_COMMAND_SET}); run a release \
             that knows it"
    )]
    Version(u8),
    /// The bytes end before the batch does, or go on behind it.
    #[error("the batch is cut short or too long at {0}")]
    Length(&'static str),
    /// A command names a kind or an origin that does not exist.
    #[error("a command names {0} {1}, which does not exist")]
    Unknown(&'static str, u8),
}

/// Bytes of an encoded batch of these commands, or a few more: as if each had an origin of its own.
pub fn max_encoded_len(commands: &[LogCommand]) -> usize {
    HEADER + commands.iter().map(|command| ORIGIN + command.encoded_len()).sum::<usize>()
}

/// Encodes a batch.
///
/// # Panics
/// When the commands have more than 255 origins or a body of 4 GiB, which admission excludes.
pub fn encode(clock_ms: u64, commands: &[LogCommand]) -> Bytes {
    let mut origins: Vec<Origin> = Vec::new();
    for command in commands {
        if !origins.contains(&command.origin) {
            origins.push(command.origin);
        }
    }
    assert!(origins.len() <= MAX_ORIGINS, "a batch names at most {MAX_ORIGINS} origins");
    let bodies: usize = commands.iter().map(LogCommand::encoded_len).sum();
    let mut out = BytesMut::with_capacity(HEADER + ORIGIN * origins.len() + bodies);
    out.put_u8(commands.iter().map(|command| command.kind.since()).max().unwrap_or(OLDEST_VERSION));
    out.put_u8(origins.len() as u8);
    out.put_u16_le(0);
    // The limits of a batch, of an auth context and of a request are far below what these fields hold.
    out.put_u32_le(u32::try_from(commands.len()).expect("a batch has at most MAX_COMMANDS commands"));
    out.put_u64_le(clock_ms);
    for origin in &origins {
        out.put_u64_le(origin.member);
        out.put_u64_le(origin.run);
    }
    for command in commands {
        let origin = origins.iter().position(|o| *o == command.origin).unwrap_or_default();
        encode_command(&mut out, command, origin as u8);
    }
    out.freeze()
}

fn encode_command(out: &mut BytesMut, command: &LogCommand, origin: u8) {
    out.put_u8(command.kind as u8);
    out.put_u8(origin);
    // As above.
    out.put_u16_le(u16::try_from(command.auth.len()).expect("an auth context is short"));
    out.put_u32_le(u32::try_from(command.body.len()).expect("a body is under 4 GiB"));
    out.put_u64_le(command.sequence);
    out.put_slice(&command.auth);
    out.put_slice(&command.body);
}

/// Decodes a batch; bodies share `payload`'s buffer.
///
/// # Errors
/// [`BatchError`] for anything [`encode`] does not write.
pub fn decode(payload: &Bytes) -> Result<Batch, BatchError> {
    let mut rest = payload.clone();
    need(&rest, HEADER, "the header")?;
    let version = rest.get_u8();
    if !(OLDEST_VERSION..=NEWEST_COMMAND_SET).contains(&version) {
        return Err(BatchError::Version(version));
    }
    let origins = usize::from(rest.get_u8());
    rest.advance(2);
    let count = rest.get_u32_le() as usize;
    let clock_ms = rest.get_u64_le();
    need(&rest, origins * ORIGIN, "the origins")?;
    let origins: Vec<Origin> =
        (0..origins).map(|_| Origin { member: rest.get_u64_le(), run: rest.get_u64_le() }).collect();
    // `count` comes from a file or a peer: what the bytes cannot hold is not allocated for.
    let mut commands = Vec::with_capacity(count.min(rest.len() / COMMAND));
    for _ in 0..count {
        commands.push(decode_command(&mut rest, version, &origins)?);
    }
    if rest.has_remaining() {
        return Err(BatchError::Length("the end"));
    }
    Ok(Batch { clock_ms, commands })
}

/// The wall clock in the header of a batch; `None` if there is no whole header.
pub fn clock_ms(payload: &[u8]) -> Option<u64> {
    let mut rest = payload.get(8..HEADER)?;
    Some(rest.get_u64_le())
}

fn decode_command(rest: &mut Bytes, version: u8, origins: &[Origin]) -> Result<LogCommand, BatchError> {
    need(rest, COMMAND, "a command")?;
    let kind = rest.get_u8();
    let known = CommandKind::from_number(kind).filter(|kind| kind.since() <= version);
    let kind = known.ok_or(BatchError::Unknown("kind", kind))?;
    let origin = rest.get_u8();
    let origin = *origins.get(usize::from(origin)).ok_or(BatchError::Unknown("origin", origin))?;
    let auth = usize::from(rest.get_u16_le());
    let body = rest.get_u32_le() as usize;
    let sequence = rest.get_u64_le();
    need(rest, auth + body, "a body")?;
    Ok(LogCommand { origin, sequence, kind, auth: rest.split_to(auth), body: rest.split_to(body) })
}

fn need(rest: &Bytes, len: usize, what: &'static str) -> Result<(), BatchError> {
    if rest.len() < len { Err(BatchError::Length(what)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    //! The batch format: golden bytes, round trips, and garbage that must come back as an error.

    use super::*;
    use proptest::prelude::*;

    fn command(member: u64, sequence: u64, kind: CommandKind, body: &'static [u8]) -> LogCommand {
        LogCommand {
            origin: Origin { member, run: 7 },
            sequence,
            kind,
            auth: Bytes::new(),
            body: Bytes::from_static(body),
        }
    }

    #[test]
    fn the_format_is_what_the_table_says() {
        let bytes = encode(0x0102, &[command(5, 9, CommandKind::Put, b"ab")]);
        let expected: &[u8] = &[
            1, 1, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, // header
            5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, // origin
            1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'a', b'b',
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn bodies_share_the_payload() {
        let bytes = encode(1, &[command(1, 1, CommandKind::Txn, b"body")]);
        let batch = decode(&bytes).expect("decodes");
        let range = bytes.as_ptr_range();
        assert!(range.contains(&batch.commands[0].body.as_ptr()));
    }

    #[test]
    fn unknown_versions_and_kinds_are_named() {
        let mut bytes = encode(1, &[command(1, 1, CommandKind::Put, b"x")]).to_vec();
        bytes[0] = 9;
        assert_eq!(decode(&bytes.clone().into()), Err(BatchError::Version(9)));
        bytes[0] = OLDEST_VERSION;
        bytes[32] = 77;
        assert_eq!(decode(&bytes.into()), Err(BatchError::Unknown("kind", 77)));
    }

    #[test]
    fn a_batch_names_the_oldest_set_that_has_its_commands() {
        let mut bytes = encode(1, &[command(1, 1, CommandKind::CommandSet, b"\x02")]).to_vec();
        assert_eq!(bytes[0], 2);
        assert!(decode(&bytes.clone().into()).is_ok());
        bytes[0] = 1;
        assert_eq!(decode(&bytes.into()), Err(BatchError::Unknown("kind", 12)), "the older set lacks it");
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(
            clock in any::<u64>(),
            commands in prop::collection::vec(
                (0u64..3, any::<u64>(), 0usize..CommandKind::ALL.len(), any::<Vec<u8>>(), any::<[u8; 3]>()), 0..20),
        ) {
            let commands: Vec<LogCommand> = commands.into_iter().map(|(member, sequence, kind, body, auth)| LogCommand {
                origin: Origin { member, run: member + 1 }, sequence, kind: CommandKind::ALL[kind],
                auth: Bytes::copy_from_slice(&auth), body: body.into(),
            }).collect();
            let decoded = decode(&encode(clock, &commands)).expect("decodes");
            prop_assert_eq!(decoded, Batch { clock_ms: clock, commands });
        }

        #[test]
        fn garbage_is_an_error_or_a_batch(bytes in any::<Vec<u8>>()) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = NEWEST_COMMAND_SET; }
            if let Ok(batch) = decode(&bytes.clone().into()) {
                // Only the two reserved bytes and unused origins may differ when it is written again.
                prop_assert_eq!(decode(&encode(batch.clock_ms, &batch.commands)).expect("decodes"), batch);
            }
        }
    }
}
