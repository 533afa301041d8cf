//! How far a copy has come: the value of the state key, which each transaction of the destination carries.
//!
//! It is lines of text, so that an operator can read it with `get`. RFC 0036 describes each.
//!
//! ```text
//! stele follow 1
//! run 2f9c…              the process that wrote it
//! source cdf818194e3a8c32
//! prefix 2f61            in hexadecimal
//! revisions new          or kept
//! copied 1200            all changes up to this revision of the source are here
//! ```
//!
//! While the first copy runs, `copying 1200 2f612f62` stands in place of the last line: the keys up to this one are as
//! they were at that revision.

use bytes::Bytes;

/// The first line; another number is another form.
const HEADING: &str = "stele follow 1";

/// How far a copy has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FollowPosition {
    /// Keys up to and with `last` are as they were at the revision; with no key if it is empty.
    Copying { revision: i64, last: Bytes },
    /// All changes up to and with the revision are there.
    Copied { revision: i64 },
}

/// What the state key says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowState {
    /// Tells processes apart.
    pub(super) run: String,
    /// The cluster that is copied.
    pub(super) source: u64,
    pub(super) prefix: Bytes,
    pub(super) keeps_revisions: bool,
    pub(super) position: FollowPosition,
}

impl FollowState {
    /// The value of the state key.
    pub(super) fn encode(&self) -> Bytes {
        let revisions = if self.keeps_revisions { "kept" } else { "new" };
        let position = match &self.position {
            FollowPosition::Copying { revision, last } => format!("copying {revision} {}", hex(last)),
            FollowPosition::Copied { revision } => format!("copied {revision}"),
        };
        let Self { run, source, prefix, .. } = self;
        let prefix = hex(prefix);
        format!(
            "{HEADING}\nrun {run}\nsource {source:x}\nprefix {prefix}\nrevisions {revisions}\n{position}\n"
        )
        .into()
    }

    /// Reads the value of the state key, if it is one.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let mut lines = text.lines();
        if lines.next()? != HEADING {
            return None;
        }
        let run = lines.next()?.strip_prefix("run ")?.to_owned();
        let source = u64::from_str_radix(lines.next()?.strip_prefix("source ")?, 16).ok()?;
        let prefix = unhex(lines.next()?.strip_prefix("prefix ")?)?;
        let keeps_revisions = match lines.next()?.strip_prefix("revisions ")? {
            "kept" => true,
            "new" => false,
            _ => return None,
        };
        let position = match lines.next()?.split_once(' ')? {
            ("copied", revision) => FollowPosition::Copied { revision: revision.parse().ok()? },
            ("copying", rest) => {
                let (revision, last) = rest.split_once(' ')?;
                FollowPosition::Copying { revision: revision.parse().ok()?, last: unhex(last)? }
            }
            _ => return None,
        };
        Some(Self { run, source, prefix, keeps_revisions, position })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Bytes> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(position: FollowPosition) -> FollowState {
        let (run, prefix) = ("2f".to_owned(), Bytes::from("/a"));
        FollowState { run, source: 0xcdf8, prefix, keeps_revisions: false, position }
    }

    #[test]
    fn the_text_is_that_of_the_rfc() {
        let copied = state(FollowPosition::Copied { revision: 1200 });
        let text = "stele follow 1\nrun 2f\nsource cdf8\nprefix 2f61\nrevisions new\ncopied 1200\n";
        assert_eq!(copied.encode(), text);
        let copying = state(FollowPosition::Copying { revision: 7, last: Bytes::from("/a\0b") });
        let text = "stele follow 1\nrun 2f\nsource cdf8\nprefix 2f61\nrevisions new\ncopying 7 2f610062\n";
        assert_eq!(copying.encode(), text);
    }

    #[test]
    fn what_was_written_is_read_and_what_was_not_is_refused() {
        for position in [
            FollowPosition::Copied { revision: i64::MAX },
            FollowPosition::Copying { revision: 1, last: Bytes::new() },
            FollowPosition::Copying { revision: 1, last: Bytes::from(vec![0, 255]) },
        ] {
            let state = FollowState { keeps_revisions: true, prefix: Bytes::new(), ..state(position) };
            assert_eq!(FollowState::decode(&state.encode()), Some(state));
        }
        let whole = state(FollowPosition::Copying { revision: 7, last: Bytes::from("k") }).encode();
        for cut in 0..whole.len() - 4 {
            assert_eq!(FollowState::decode(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(FollowState::decode(b"stele follow 2\n"), None);
        assert_eq!(FollowState::decode(&[0xff]), None);
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("+1"), None);
    }
}
