//! Which kinds of failures were logged since a peer was last connected.
//!
//! A peer that starts with a certificate that is not good first does not listen, and then fails the handshake: an
//! operator must see both, and each once.

use std::mem::Discriminant;

use crate::error::Error;

/// The kinds of failures of one outage; there are no more than kinds of errors.
#[derive(Default)]
pub(super) struct LoggedKinds(Vec<Discriminant<Error>>);

impl LoggedKinds {
    /// Whether no failure of this kind came before in this outage.
    pub(super) fn is_first(&mut self, error: &Error) -> bool {
        let kind = std::mem::discriminant(error);
        let is_first = !self.0.contains(&kind);
        if is_first {
            self.0.push(kind);
        }
        is_first
    }

    /// The outage is over.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    //! Kinds, and the end of an outage.
    use super::*;

    #[test]
    fn each_kind_of_failure_is_new_once_in_an_outage() {
        let dial = || Error::Dial { address: "a".to_owned(), source: std::io::ErrorKind::TimedOut.into() };
        let tls = |text: &str| Error::Tls(rustls::Error::General(text.to_owned()));
        let mut logged = LoggedKinds::default();
        assert!(logged.is_first(&dial()) && logged.is_first(&tls("expired")));
        assert!(!logged.is_first(&dial()) && !logged.is_first(&tls("unknown")));
        logged.clear();
        assert!(logged.is_first(&tls("expired")));
    }
}
