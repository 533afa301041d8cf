//! Which threads encrypt. rustls is given a cipher suite that notes the thread of each record.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use bytes::Bytes;
use parking_lot::Mutex;
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, OutboundOpaqueMessage, OutboundPlainMessage,
    Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{
    CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, SupportedCipherSuite, Tls13CipherSuite,
};
use transport::StreamClass;

use crate::cluster::introduce;
use crate::tls::{Authority, config, start};

/// For each record of a frame: the thread that encrypted it, and its bytes before that.
type Records = Arc<Mutex<Vec<(ThreadId, usize)>>>;

/// A cipher that notes which thread uses it.
struct Noting {
    inner: &'static dyn Tls13AeadAlgorithm,
    records: Records,
}

impl Tls13AeadAlgorithm for Noting {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        let inner = self.inner.encrypter(key, iv);
        Box::new(NotingEncrypter { inner, records: self.records.clone() })
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        self.inner.decrypter(key, iv)
    }

    fn key_len(&self) -> usize {
        self.inner.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.inner.extract_keys(key, iv)
    }
}

struct NotingEncrypter {
    inner: Box<dyn MessageEncrypter>,
    records: Records,
}

impl MessageEncrypter for NotingEncrypter {
    fn encrypt(
        &mut self,
        record: OutboundPlainMessage<'_>,
        number: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        if record.typ == ContentType::ApplicationData {
            self.records.lock().push((thread::current().id(), record.payload.len()));
        }
        self.inner.encrypt(record, number)
    }

    fn encrypted_payload_len(&self, payload_bytes: usize) -> usize {
        self.inner.encrypted_payload_len(payload_bytes)
    }
}

/// A provider whose only cipher suite notes its threads.
fn noting(records: &Records) -> CryptoProvider {
    let mut provider = ring::default_provider();
    let suite = provider.cipher_suites.iter().find_map(SupportedCipherSuite::tls13).unwrap();
    let common = CipherSuiteCommon {
        suite: suite.common.suite,
        hash_provider: suite.common.hash_provider,
        confidentiality_limit: suite.common.confidentiality_limit,
    };
    let aead_alg = Box::leak(Box::new(Noting { inner: suite.aead_alg, records: records.clone() }));
    let suite = Tls13CipherSuite { common, hkdf_provider: suite.hkdf_provider, aead_alg, quic: None };
    provider.cipher_suites = vec![SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)))];
    provider
}

#[test]
fn a_thread_that_sends_encrypts_nothing() {
    let records = Records::default();
    let authority = Authority::new();
    let noted = authority.credentials_by("127.0.0.1", noting(&records));
    let plain = authority.credentials("127.0.0.1");
    let (a, b) = introduce(start(config(1, &noted), &plain), start(config(2, &plain), &plain));
    let body = Bytes::from(vec![7; 10_000]);
    for class in StreamClass::ALL {
        (0..20).for_each(|_| a.send(2, class, body.clone()));
    }
    drop(b.journal.wait_for("all frames", |seen| seen.frames.len() == 40));
    let records = records.lock();
    assert!(records.iter().map(|(_, bytes)| bytes).sum::<usize>() >= 40 * body.len(), "all of it was noted");
    assert!(records.iter().all(|(thread, _)| *thread != thread::current().id()));
}
