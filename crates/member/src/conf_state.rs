//! The Raft configuration as the first chunk of a checkpoint, before the chunks of the store.
//!
//! ```text
//! version u8 (1) | auto leave u8 | zero u16 | then four lists: count u32, member id u64 each
//!     (voters, outgoing voters, learners, next learners)
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use consensus::ConfState;

const VERSION: u8 = 1;

/// Encodes a configuration; see the module for the layout.
pub(crate) fn encode(conf: &ConfState) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    out.put_u8(u8::from(conf.auto_leave));
    out.put_u16_le(0);
    for list in [&conf.voters, &conf.voters_outgoing, &conf.learners, &conf.learners_next] {
        out.put_u32_le(u32::try_from(list.len()).expect("members are few"));
        list.iter().for_each(|id| out.put_u64_le(*id));
    }
    out.freeze()
}

/// Decodes a configuration; `None` for anything that [`encode`] does not write.
pub(crate) fn decode(bytes: &Bytes) -> Option<ConfState> {
    let mut rest = bytes.clone();
    if rest.try_get_u8().ok()? != VERSION {
        return None;
    }
    let auto_leave = rest.try_get_u8().ok()? != 0;
    rest.try_get_u16_le().ok()?;
    let mut list = || -> Option<Vec<u64>> {
        let count = rest.try_get_u32_le().ok()?;
        (0..count).map(|_| rest.try_get_u64_le().ok()).collect()
    };
    let (voters, voters_outgoing, learners, learners_next) = (list()?, list()?, list()?, list()?);
    (!rest.has_remaining()).then_some(ConfState {
        voters,
        voters_outgoing,
        learners,
        learners_next,
        auto_leave,
    })
}

#[cfg(test)]
mod tests {
    //! Round trip; truncated input is refused.
    use super::*;

    #[test]
    fn a_configuration_round_trips_and_truncated_input_is_refused() {
        let conf = ConfState { learners: vec![9], auto_leave: true, ..ConfState::of_voters([3, 1, 2]) };
        let bytes = encode(&conf);
        assert_eq!(decode(&bytes), Some(conf));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes.slice(..cut)), None, "cut at {cut}");
        }
    }
}
