//! `SIGHUP` and `Admin.Reload`: the configuration is read again from where it came, and what can change while the
//! member runs is put in force. The log says what changed, and what needs a restart. Files of the log are opened again.

use std::ffi::OsString;
use std::sync::Arc;

use member::Input;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::memory;
use crate::auto_compaction;
use crate::config::{CompactionPolicy, FlagChanges, Parsed, ServerConfig};
use crate::live_settings::{ReloadAnswer, quota_bytes};
use crate::logging;
use crate::node::Node;

/// What a reload changes.
pub(super) struct Reloading {
    /// What the process was started with.
    started: ServerConfig,
    /// What was read last.
    config: ServerConfig,
    node: Arc<Node>,
    auto_compaction: Option<JoinHandle<()>>,
}

impl Reloading {
    /// Begins with this configuration, and with its automatic compaction.
    pub(super) fn new(config: ServerConfig, node: Arc<Node>) -> Reloading {
        let auto_compaction = compacting(&node, config.auto_compaction);
        Reloading { started: config.clone(), config, node, auto_compaction }
    }

    /// Reloads at each `SIGHUP`, and when it is asked, until the process ends.
    pub(super) async fn run(mut self, mut hangup: Signal, mut asks: mpsc::Receiver<ReloadAnswer>) {
        loop {
            let answer = tokio::select! {
                hung_up = hangup.recv() => match hung_up {
                    Some(()) => None,
                    None => return,
                },
                Some(answer) = asks.recv() => Some(answer),
            };
            let reloaded = self.reload().await;
            if let Some(answer) = answer {
                // Who asked may have gone.
                let _ = answer.send(reloaded);
            }
        }
    }

    async fn reload(&mut self) -> Result<FlagChanges, String> {
        logging::reopen_files();
        // A file on a disk that hangs must hold up no connection.
        let read = tokio::task::spawn_blocking(read_again).await;
        match read.map_err(|error| error.to_string()).flatten() {
            Ok(config) => Ok(self.apply(config)),
            Err(error) => {
                tracing::warn!(error, "cannot reload the configuration: nothing changed");
                Err(error)
            }
        }
    }

    fn apply(&mut self, config: ServerConfig) -> FlagChanges {
        let changes = FlagChanges::between(&self.started, &self.config, &config);
        logging::set_level(config.observing.log_level);
        self.node.live.apply(&config);
        self.node.handoff.submit(Input::SetQuota { bytes: quota_bytes(&config) });
        if config.limits.memory_limit_bytes != self.config.limits.memory_limit_bytes {
            let limit = memory::limit(config.limits.memory_limit_bytes, &memory::read_file);
            tracing::info!(limit_bytes = limit.bytes, reason = limit.reason, "changed the memory limit");
            self.node.handoff.submit(Input::SetMemoryLimit { bytes: limit.bytes });
        }
        if config.auto_compaction != self.config.auto_compaction {
            self.auto_compaction.iter().for_each(JoinHandle::abort);
            self.auto_compaction = compacting(&self.node, config.auto_compaction);
        }
        let (changed, needs_restart) = (changes.effective.join(", "), changes.at_restart.join(", "));
        tracing::info!(changed, needs_restart, "reloaded the configuration");
        self.config = config;
        changes
    }
}

fn compacting(node: &Arc<Node>, policy: Option<CompactionPolicy>) -> Option<JoinHandle<()>> {
    policy.map(|policy| tokio::spawn(auto_compaction::run(node.clone(), policy)))
}

/// Listens for `SIGHUP`, which would end the process otherwise.
///
/// # Errors
/// When the system refuses it.
pub(super) fn hangup() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

fn read_again() -> Result<ServerConfig, String> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match crate::config::parse(arguments.into_iter(), std::env::vars_os()) {
        Ok(Parsed::Run(config)) => Ok(*config),
        Ok(Parsed::Check(_) | Parsed::Print(_)) => Err("the command line does not run a server".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
