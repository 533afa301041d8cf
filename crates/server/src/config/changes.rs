//! What differs between the configuration of a running member and one that was read again.

use super::settings::ServerConfig;

/// Flags that take effect while the member runs.
pub(crate) const RELOADED: [&str; 16] = [
    "auto-compaction-mode",
    "auto-compaction-retention",
    "client-max-bytes-rate",
    "client-max-request-rate",
    "client-max-streams",
    "cors",
    "host-whitelist",
    "log-level",
    "max-concurrent-streams",
    "max-request-bytes",
    "max-request-wait",
    "max-txn-ops",
    "memory-limit-bytes",
    "quota-backend-bytes",
    "warning-apply-duration",
    "warning-unary-request-duration",
];

/// The flags that changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FlagChanges {
    /// Those that take effect at once, with their new values.
    pub(crate) effective: Vec<String>,
    /// Those that take effect when the member is started again.
    pub(crate) at_restart: Vec<String>,
}

impl FlagChanges {
    /// What `new` changes in a member that was started with one configuration and runs with another: what takes effect
    /// at once is compared with `running`, all else with `started`, since nothing that was read later changed it.
    pub(crate) fn between(started: &ServerConfig, running: &ServerConfig, new: &ServerConfig) -> FlagChanges {
        let given = [started, running, new].map(|config| &config.given);
        let mut names: Vec<_> = given.into_iter().flat_map(|given| given.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        let mut changes = FlagChanges::default();
        for name in names {
            let is_reloaded = RELOADED.contains(&name);
            let old = if is_reloaded { running } else { started };
            if old.given.get(name) == new.given.get(name) {
                continue;
            }
            if is_reloaded {
                let value = new.given.get(name).map_or("the default", String::as_str);
                changes.effective.push(format!("--{name} ({value})"));
            } else {
                changes.at_restart.push(format!("--{name}"));
            }
        }
        // No flag sets it.
        let client_names = |config: &ServerConfig| config.security.client.allowed_common_names.clone();
        if client_names(started) != client_names(new) {
            changes.at_restart.push("client-transport-security.allowed-cn".to_owned());
        }
        changes
    }
}
