//! `--check`: whether a member could start with these flags and this data directory. Nothing is started, nothing is
//! changed, no port is bound, and the network is asked only for the addresses of names.
//!
//! A directory with data is opened as for a start, over a disk whose writes stay in memory ([`preview_disk`]): what
//! would stop the start (damage, another cluster's or etcd's data, missing files) stops the check.

mod preview_disk;

use std::error::Error;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;

use super::descriptors::{self, DescriptorShares};
use super::scoped_threads::ScopedThreads;
use super::{describe, memory};
use crate::config::{ClusterState, Note, ServerConfig};
use crate::rpc::RpcWorkers;
use crate::tls::TlsSides;

use preview_disk::PreviewDisk;

/// Checks, prints what was found, and returns how the process ends.
pub(super) fn main(config: ServerConfig) -> ExitCode {
    config.notes.iter().for_each(print_note);
    match check(&config) {
        Ok(found) => {
            print_line(&format!("the configuration is good; {found}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_note(note: &Note) {
    let fields: String = note.fields.iter().map(|(name, value)| format!(" {name}={value:?}")).collect();
    print_line(&format!("{}{}{fields}", if note.warning { "warning: " } else { "" }, note.message));
}

fn print_line(line: &str) {
    // A reader that closed its end early (`| head`) is no failure.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Returns what the data directory holds.
fn check(config: &ServerConfig) -> Result<String, Box<dyn Error + Send + Sync>> {
    let workers = RpcWorkers::count_for(std::thread::available_parallelism().map_or(1, NonZero::get));
    let (limit, _) = descriptors::raise_limit();
    let descriptors = DescriptorShares::of(limit, workers)?;
    TlsSides::check(config)?;
    describe::signed_tokens(config)?;
    let disk = PreviewDisk::default();
    let options = log::Options {
        wal_dir: config.wal_dir.clone(),
        open_files: descriptors.value_files,
        ..log::Options::new(config.data_dir.clone())
    };
    let directory = config.data_dir.display();
    if !log::Log::has_checkpoint(&disk, &options)? {
        let is_discovered =
            config.cluster.discovery_srv.is_some() || config.cluster.discovery_service.is_some();
        if !is_discovered {
            config.validate_bootstrap()?;
        }
        let begins = match config.cluster.state {
            ClusterState::New => "a member of a new cluster would begin there",
            ClusterState::Existing => "a member would join its cluster there",
        };
        return Ok(format!("{directory} holds no data: {begins}"));
    }
    let memory = memory::limit(config.limits.memory_limit_bytes, &memory::read_file);
    let member_config = describe::member_config(config, memory.bytes);
    let disk: Arc<dyn log::Disk> = Arc::new(disk);
    let opened = member::open(&disk, &options, member_config, &ScopedThreads)?;
    opened.warnings.iter().for_each(|warning| print_line(&format!("warning: {warning}")));
    Ok(format!(
        "{directory} holds member {:x} of cluster {:x}, with {} keys at revision {}",
        opened.identity.member_id,
        opened.identity.cluster_id,
        opened.reader.counts().keys,
        opened.reader.current_revision(),
    ))
}

#[cfg(test)]
mod tests;
