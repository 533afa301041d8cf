//! The frames of requests about members.

use api::Error;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::membership::request::MembershipRequest;

/// The errors that a leader answers a request about members with, in the order of their codes, from 1. Code 0 says that
/// it does not lead.
const REFUSALS: [Error; 11] = [
    Error::MemberExists,
    Error::MemberNotFound,
    Error::MemberNotLearner,
    Error::PeerUrlExists,
    Error::TooManyLearners,
    Error::LearnerNotReady,
    Error::NotEnoughStartedMembers,
    Error::Unhealthy,
    Error::TooManyRequests,
    Error::NotCapable,
    Error::NoSpace,
];

pub(super) fn encode_request(head: &mut BytesMut, run: u64, sequence: u64, request: &MembershipRequest) {
    head.put_u8(13);
    head.put_u64_le(run);
    head.put_u64_le(sequence);
    request.put(head);
}

pub(super) fn decode_request(bytes: &mut Bytes) -> Option<(u64, u64, MembershipRequest)> {
    let (run, sequence) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
    Some((run, sequence, MembershipRequest::take(bytes)?))
}

/// # Panics
/// For an error that no request about members is refused with.
pub(super) fn encode_refusal(head: &mut BytesMut, run: u64, sequence: u64, error: Option<Error>) {
    let position = |error| REFUSALS.iter().position(|known| *known == error);
    let code = error.map_or(0, |error| 1 + position(error).expect("one of those that a leader refuses with"));
    head.put_u8(14);
    head.put_u64_le(run);
    head.put_u64_le(sequence);
    head.put_u8(code as u8);
}

pub(super) fn decode_refusal(bytes: &mut Bytes) -> Option<(u64, u64, Option<Error>)> {
    let (run, sequence) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u64_le().ok()?);
    let error = match usize::from(bytes.try_get_u8().ok()?) {
        0 => None,
        code => Some(*REFUSALS.get(code - 1)?),
    };
    Some((run, sequence, error))
}

pub(super) fn encode_introduction(head: &mut BytesMut, id: u64, peer_urls: &[String]) {
    head.put_u8(15);
    MembershipRequest::Update { id, peer_urls: peer_urls.to_vec() }.put(head);
}

pub(super) fn decode_introduction(bytes: &mut Bytes) -> Option<(u64, Vec<String>)> {
    match MembershipRequest::take(bytes)? {
        MembershipRequest::Update { id, peer_urls } => Some((id, peer_urls)),
        _ => None,
    }
}
