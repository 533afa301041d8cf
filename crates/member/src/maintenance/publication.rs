//! A member's name, client URLs and incarnation, published through the log once it knows a leader (each tick asks).
//!
//! The first incarnation published under a member id is bound to it for good. A wiped directory comes back with another
//! one, and peers refuse its handshakes: the member must be removed and added again, because it may have forgotten a
//! vote.
//!
//! ```text
//! member id u64 | incarnation u64 | strings u16 | then each: length u16, UTF-8 bytes   (the name, then client URLs)
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::config::MemberConfig;

/// The body of a `Publish` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The member's id.
    pub member: u64,
    /// The random number of its data directory.
    pub incarnation: u64,
    /// `--name`.
    pub name: String,
    /// `--advertise-client-urls`.
    pub client_urls: Vec<String>,
}

impl Publish {
    /// Encodes the body; see the module for the layout.
    ///
    /// # Panics
    /// When a name or URL is longer than 65,535 bytes; configuration is checked against that.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u64_le(self.member);
        out.put_u64_le(self.incarnation);
        out.put_u16_le(u16::try_from(1 + self.client_urls.len()).expect("a member has few client URLs"));
        for text in std::iter::once(&self.name).chain(&self.client_urls) {
            out.put_u16_le(u16::try_from(text.len()).expect("a name or URL is short"));
            out.put_slice(text.as_bytes());
        }
        out.freeze()
    }

    /// Decodes a body; `None` for anything [`Publish::encode`] does not write.
    pub fn decode(body: &Bytes) -> Option<Publish> {
        let mut rest = body.clone();
        let member = rest.try_get_u64_le().ok()?;
        let incarnation = rest.try_get_u64_le().ok()?;
        let strings = rest.try_get_u16_le().ok()?;
        let mut texts = Vec::new();
        for _ in 0..strings {
            let len = usize::from(rest.try_get_u16_le().ok()?);
            if rest.len() < len {
                return None;
            }
            texts.push(String::from_utf8(rest.split_to(len).to_vec()).ok()?);
        }
        if texts.is_empty() || rest.has_remaining() {
            return None;
        }
        let name = texts.remove(0);
        Some(Publish { member, incarnation, name, client_urls: texts })
    }
}

/// When this member publishes itself: once there is a leader, and again until its own state shows it.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    proposed_at_ns: Option<u64>,
}

impl Publication {
    /// Whether to propose the command now.
    pub(crate) fn is_due(&self, now_ns: u64, config: &MemberConfig, reader: &store::Reader) -> bool {
        let again_ns = config.request_timeout_ns();
        let waits = self.proposed_at_ns.is_some_and(|at_ns| now_ns < at_ns + again_ns);
        !waits && !is_published(config, reader)
    }

    /// The command to propose.
    pub(crate) fn propose(&mut self, now_ns: u64, config: &MemberConfig) -> Bytes {
        self.proposed_at_ns = Some(now_ns);
        let publish = Publish {
            member: config.member_id,
            incarnation: config.incarnation,
            name: config.name.clone(),
            client_urls: config.client_urls.clone(),
        };
        publish.encode()
    }
}

/// Whether the cluster has applied this member's name and URLs as they are configured now.
fn is_published(config: &MemberConfig, reader: &store::Reader) -> bool {
    reader.members().iter().any(|member| {
        member.id == config.member_id
            && member.name == config.name
            && member.client_urls == config.client_urls
            && member.incarnation == config.incarnation
    })
}

#[cfg(test)]
mod tests {
    //! Round trip; truncated input is refused.
    use super::*;

    #[test]
    fn a_publication_round_trips_and_truncated_input_is_refused() {
        let publish =
            Publish { member: 3, incarnation: 4, name: "m0".into(), client_urls: vec!["http://a:1".into()] };
        let bytes = publish.encode();
        assert_eq!(Publish::decode(&bytes), Some(publish));
        for cut in 0..bytes.len() {
            assert_eq!(Publish::decode(&bytes.slice(..cut)), None, "cut at {cut}");
        }
    }
}
