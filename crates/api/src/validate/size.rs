//! What counts towards `--max-request-bytes`.
//!
//! etcd measures what it proposes: an `InternalRaftRequest` that holds the request, an id that it drew, and the user.
//! Stele proposes something else, and counts by the same arithmetic, so that the same requests are refused.
//!
//! ```text
//! a put of 4,070 bytes by ann (auth revision 9), at a member whose ids take 10 bytes
//!   header    1 + 10 id, 1 + 1 + 3 name, 1 + 1 revision    18 bytes, and 3 of its own field
//!   put                                                 4,070 bytes, and 3 of its own field
//!                                                       4,094 bytes
//! ```

use prost::encoding::{encoded_len_varint, key_len};

use crate::Error;

/// The field of the header in an `InternalRaftRequest`.
const HEADER_FIELD: u32 = 100;

/// The fields of a header.
const ID_FIELD: u32 = 1;
const NAME_FIELD: u32 = 2;
const REVISION_FIELD: u32 = 3;

/// Bits of an id below those of the member: a time in milliseconds and a counter. The highest of them is set until
/// 2039.
const ID_SUFFIX_BITS: u32 = 48;

/// The field of a request in an `InternalRaftRequest`, as far as its length goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftField {
    /// Requests of the KV service: one of the fields 3 to 11.
    Kv,
    /// Changes of users and roles: one of the fields from 1,000 on.
    Auth,
}

impl RaftField {
    /// One of the fields it stands for: all have equally long keys.
    const fn number(self) -> u32 {
        match self {
            RaftField::Kv => 4,
            RaftField::Auth => 1_100,
        }
    }
}

/// A request as etcd would propose it.
#[derive(Clone, Copy, Debug)]
pub struct ProposedRequest<'a> {
    /// Which field holds it.
    pub field: RaftField,
    /// Bytes of the request itself, encoded.
    pub bytes: usize,
    /// The member that was asked: the ids that it draws begin with its own.
    pub member_id: u64,
    /// The caller's name, and the auth revision of its token; `None` for one that is no user.
    pub user: Option<(&'a str, u64)>,
}

impl ProposedRequest<'_> {
    /// Bytes of the whole `InternalRaftRequest`.
    fn encoded_len(&self) -> usize {
        let id = self.member_id << ID_SUFFIX_BITS | 1 << (ID_SUFFIX_BITS - 1);
        let user = self.user.map_or(0, |(name, revision)| {
            let name = if name.is_empty() { 0 } else { field_len(NAME_FIELD, name.len()) };
            let revision =
                if revision == 0 { 0 } else { key_len(REVISION_FIELD) + encoded_len_varint(revision) };
            name + revision
        });
        let header = key_len(ID_FIELD) + encoded_len_varint(id) + user;
        field_len(HEADER_FIELD, header) + field_len(self.field.number(), self.bytes)
    }
}

/// Bytes of a field that holds so many bytes: its key, its length, and them.
fn field_len(field: u32, bytes: usize) -> usize {
    key_len(field) + prost::length_delimiter_len(bytes) + bytes
}

/// Refuses a request that etcd would find longer than `--max-request-bytes`.
///
/// # Errors
/// [`Error::RequestTooLarge`]
pub fn size(request: &ProposedRequest<'_>, max_request_bytes: usize) -> Result<(), Error> {
    if request.encoded_len() > max_request_bytes { Err(Error::RequestTooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    //! The arithmetic against encodings.
    use bytes::Bytes;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::etcdserverpb::{AuthRoleDeleteRequest, InternalRaftRequest, PutRequest, RequestHeader};

    /// What etcd would encode, with an id that the member drew at this time.
    fn encoded(
        member_id: u64,
        now_ms: u64,
        user: Option<(&str, u64)>,
        set: impl FnOnce(&mut InternalRaftRequest),
    ) -> usize {
        let id = member_id << 48 | (now_ms & ((1 << 40) - 1)) << 8 | 7;
        let (name, auth_revision) = user.unwrap_or_default();
        let header = RequestHeader { id, username: name.to_owned(), auth_revision };
        let mut request = InternalRaftRequest { header: Some(header), ..Default::default() };
        set(&mut request);
        request.encode_to_vec().len()
    }

    #[test]
    fn the_example_above_is_right() {
        let request = ProposedRequest {
            field: RaftField::Kv,
            bytes: 4_070,
            member_id: 0x8e9e_05c5_2164_694d | 1 << 15,
            user: Some(("ann", 9)),
        };
        assert_eq!(request.encoded_len(), 4_094);
        assert_eq!(size(&request, 4_094), Ok(()));
        assert_eq!(size(&request, 4_093), Err(Error::RequestTooLarge));
    }

    proptest! {
        #[test]
        fn a_length_is_that_of_the_encoding(
            member_id: u64,
            // 2024 to 2039.
            now_ms in 1_704_067_200_000_u64..2_177_452_800_000,
            name in prop::option::of("[a-z]{0,300}"),
            revision in prop_oneof![0..300_u64, any::<u64>()],
            length in prop_oneof![0..300_usize, 16_000..17_000_usize],
        ) {
            let user = name.as_deref().map(|name| (name, revision));
            let put = PutRequest { value: Bytes::from(vec![7; length]), ..Default::default() };
            let proposed = |field, bytes| ProposedRequest { field, bytes, member_id, user }.encoded_len();
            prop_assert_eq!(
                proposed(RaftField::Kv, put.encoded_len()),
                encoded(member_id, now_ms, user, |request| request.put = Some(put))
            );
            let delete = AuthRoleDeleteRequest { role: "r".repeat(length) };
            prop_assert_eq!(
                proposed(RaftField::Auth, delete.encoded_len()),
                encoded(member_id, now_ms, user, |request| request.auth_role_delete = Some(delete))
            );
        }
    }
}
