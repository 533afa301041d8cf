//! The body of the command that expires leases.
//!
//! Only the leader's clock knows that a lease has expired. The command carries the leader's term, and apply ignores it
//! in an entry of another term: a deposed leader's command must not expire a lease that its successor has renewed.
//!
//! ```text
//! term u64 | then each: lease id i64          (little-endian)
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The body of a `LeaseExpire` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The term in which the leader's clock ran. An entry of another term does not expire anything.
    pub term: u64,
    /// Lease ids.
    pub leases: Vec<i64>,
}

impl Expiry {
    /// Encodes the body.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + 8 * self.leases.len());
        out.put_u64_le(self.term);
        for id in &self.leases {
            out.put_i64_le(*id);
        }
        out.freeze()
    }

    /// Decodes a body; `None` for anything [`Expiry::encode`] does not write.
    pub fn decode(body: &Bytes) -> Option<Expiry> {
        let mut rest = body.clone();
        let term = rest.try_get_u64_le().ok()?;
        if !rest.len().is_multiple_of(8) {
            return None;
        }
        let leases = (0..rest.len() / 8).map(|_| rest.get_i64_le()).collect();
        Some(Expiry { term, leases })
    }
}

#[cfg(test)]
mod tests {
    //! Round trip; truncated input is refused.
    use super::*;

    #[test]
    fn an_expiry_survives_its_encoding() {
        let expiry = Expiry { term: 4, leases: vec![1, -2, i64::MAX] };
        assert_eq!(Expiry::decode(&expiry.encode()), Some(expiry.clone()));
        assert_eq!(Expiry::decode(&expiry.encode().slice(..20)), None);
    }
}
