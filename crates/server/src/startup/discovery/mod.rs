//! How a member without data learns the first members of its cluster when `--initial-cluster` does not name them.
//!
//! | file | learns them from |
//! |---|---|
//! | `dns` | SRV records: `--discovery-srv` |
//! | `service` | a cluster that speaks etcd's API, where they register: `--discovery-endpoints` |
//!
//! A member that has data knows its cluster and asks for none.

mod dns;
mod service;

use crate::config::ServerConfig;

/// The configuration with the first members of the cluster, which are asked for if the flags say so.
///
/// # Errors
/// They cannot be learned, this member is not among them, or one of them cannot be reached by this release.
pub(super) async fn complete(config: &ServerConfig) -> Result<ServerConfig, String> {
    let mut config = config.clone();
    let advertised = &config.urls.initial_advertise_peer;
    if let Some(srv) = &config.cluster.discovery_srv {
        config.cluster.initial = dns::look_up(srv, &config.name, advertised).await?;
    } else if let Some(found) = &config.cluster.discovery_service {
        let initial = service::join(found, &config.name, advertised).await;
        config.cluster.initial =
            initial.map_err(|error| format!("failed to join discovery cluster ({error})"))?;
        // As in etcd: ids are computed from it.
        config.cluster.token.clone_from(&found.token);
    } else {
        return Ok(config);
    }
    config.validate().map_err(|error| error.to_string())?;
    Ok(config)
}
