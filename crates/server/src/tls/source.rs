//! The configuration in force, which follows the files.
//!
//! Before each handshake the files are asked for their size and times. If one has changed, all are read, and the new
//! configuration counts from that handshake on; connections that are open keep what they have. A certificate and a key
//! that do not fit together (one was replaced and the other not yet) leave in force the pair before, while authorities
//! and revocations count at once. A bad file of authorities or revocations lets no one in until it is good.
//!
//! One handshake asks or reads at a time, on a thread that may block; others go on with what is in force meanwhile, so
//! that files on a disk that does not answer delay one handshake and no call. What could not be loaded is read again
//! when it changes, and else once a second.
//!
//! ```text
//! handshake 1   stamps as loaded                  -> configuration 1
//!               (cert-file is replaced)
//! handshake 2   stamps differ, key does not fit   -> configuration 1, a warning
//!               (crl-file is replaced)
//! handshake 3   stamps differ, key does not fit   -> pair of configuration 1, the new revocations
//!               (key-file is replaced)
//! handshake 4   stamps differ, all fits           -> configuration 2
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::ClientConfig;
use transport::PeerTls;

use super::contents::{ReloadFailures, TlsContents};
use super::files::TlsError;
use super::loaded::LoadedTls;
use super::sides::TlsFiles;
use crate::file_stamps::FileStamps;
use crate::logging::RepeatedFailures;

/// Time after which files that could not be loaded are read again though they have not changed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration of one side.
pub(crate) struct TlsSource {
    files: TlsFiles,
    current: Mutex<Arc<LoadedTls>>,
    /// Locked while the files are asked or read. A handshake never waits for it.
    state: Mutex<SourceState>,
}

struct SourceState {
    contents: TlsContents,
    /// Of the files when they were read last, whether they were good or not.
    stamps: FileStamps,
    /// When the files are read again though their stamps are the same.
    next_read: Option<Instant>,
    failures: RepeatedFailures,
}

impl std::fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSource").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TlsSource {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`TlsContents::load`] and [`LoadedTls::of`].
    pub(crate) fn load(files: TlsFiles) -> Result<TlsSource, TlsError> {
        let stamps = stamps(&files);
        let contents = TlsContents::load(&files)?;
        let loaded = LoadedTls::of(&files, &contents)?;
        warn_if_expired(&files, &loaded);
        let current = Mutex::new(Arc::new(loaded));
        let next_read = stamps.are_unsettled().then(Instant::now);
        let state = SourceState { contents, stamps, next_read, failures: RepeatedFailures::default() };
        Ok(TlsSource { files, current, state: Mutex::new(state) })
    }

    /// The side whose configuration this is.
    pub(crate) fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// The configuration of the next handshake. Reads files that have changed: blocks for as long as that takes.
    pub(crate) fn current(&self) -> Arc<LoadedTls> {
        self.current_at(Instant::now())
    }

    /// As [`TlsSource::current`], at this time.
    pub(super) fn current_at(&self, now: Instant) -> Arc<LoadedTls> {
        // While another handshake reads, what is in force counts.
        if let Some(mut state) = self.state.try_lock() {
            let stamps = stamps(&self.files);
            if state.must_read(&stamps, now) {
                self.read(&mut state, stamps, now);
            }
        }
        self.current.lock().clone()
    }

    /// As [`TlsSource::current`], but the files are asked and read elsewhere: they may lie on what does not answer.
    pub(super) async fn current_off_worker(self: &Arc<Self>) -> Arc<LoadedTls> {
        let is_asked = self.state.try_lock().is_none();
        if !is_asked {
            let source = self.clone();
            if let Ok(current) = tokio::task::spawn_blocking(move || source.current()).await {
                return current;
            }
        }
        self.current.lock().clone()
    }

    fn read(&self, state: &mut SourceState, stamps: FileStamps, now: Instant) {
        let has_changed = stamps.differ_from(&state.stamps);
        let mut failures = state.contents.reload(&self.files);
        match LoadedTls::of(&self.files, &state.contents) {
            Ok(loaded) => *self.current.lock() = Arc::new(loaded),
            Err(error) => failures.pairs.push(error),
        }
        state.next_read = match (failures.is_empty(), stamps.are_unsettled()) {
            (false, _) => Some(now + RETRY_INTERVAL),
            (true, true) => Some(now),
            (true, false) => None,
        };
        state.stamps = stamps;
        if has_changed && failures.is_empty() {
            tracing::info!(
                side = self.files.side.name(),
                "reloaded certificates, keys, authorities and revocation lists"
            );
            warn_if_expired(&self.files, &self.current.lock());
        }
        self.log(&mut state.failures, &failures, now);
    }

    fn log(&self, logged: &mut RepeatedFailures, failures: &ReloadFailures, now: Instant) {
        let side = self.files.side.name();
        for error in &failures.pairs {
            if let Some(count) = logged.due(&error.to_string(), now) {
                let message = "cannot reload TLS files; the certificate and key before stay in force";
                tracing::warn!(side, %error, count, "{message}");
            }
        }
        if let Some(error) = &failures.restrictions
            && let Some(count) = logged.due(&error.to_string(), now)
        {
            let message = "cannot reload TLS files; handshakes are refused until this one is good";
            tracing::error!(side, %error, count, "{message}");
        }
    }
}

impl SourceState {
    fn must_read(&self, stamps: &FileStamps, now: Instant) -> bool {
        stamps.differ_from(&self.stamps) || self.next_read.is_some_and(|due| now >= due)
    }
}

impl PeerTls for TlsSource {
    fn client_config(&self) -> Option<Arc<ClientConfig>> {
        self.current().peer_client()
    }
}

fn stamps(files: &TlsFiles) -> FileStamps {
    FileStamps::of(files.all().map(|file| file.path.as_path()))
}

fn warn_if_expired(files: &TlsFiles, loaded: &LoadedTls) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    if loaded.not_after_s.is_some_and(|end| end < now) {
        tracing::warn!(side = files.side.name(), "the certificate of this member has expired");
    }
}

#[cfg(test)]
mod tests {
    //! A handshake while another one reads.
    use super::*;
    use crate::tls::sides::TlsSide;
    use crate::tls::tests::{Authority, files};

    #[test]
    fn a_handshake_does_not_wait_for_one_that_reads() {
        let authority = Authority::new("ca");
        authority.issue("a", &["localhost"], 1);
        let source = TlsSource::load(files(TlsSide::Client, &authority.mutual("a"))).expect("good files");
        let before = source.current().not_after_s;
        let end = rcgen::date_time_ymd(2048, 1, 1);
        authority.issue_with("a", &["localhost"], 2, |params| params.not_after = end);
        let reading = source.state.lock();
        assert_eq!(source.current().not_after_s, before, "what is in force counts");
        drop(reading);
        assert_ne!(source.current().not_after_s, before);
    }
}
