//! `backup`: copies a running cluster into an archive, as it goes on.
//!
//! The crate `archive` decides what is copied when, and writes it; here are the client that it asks, and what an
//! operator sees. RFC 0037 describes both.

mod report;
mod source;

use std::path::Path;
use std::time::Duration;

use archive::{Archive, ArchiveError, BackupFollower, FollowSettings, FollowStatus, SecretKey};

use crate::command::stopped;
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open};
use report::BackupReport;
use source::ClusterSource;

/// The shortest interval: each copy costs the cluster a round and the store an object.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if shell.args.len() != 1 {
        return Err(Exit::bad_args(
            "backup takes one argument, the archive: file:///DIRECTORY or s3://BUCKET/PREFIX",
        ));
    }
    let settings = settings(shell)?;
    let key = match shell.values.text("encryption-key-file") {
        "" => None,
        path => Some(SecretKey::read(Path::new(path)).map_err(failed)?),
    };
    if key.is_none() {
        shell.complain(
            "warning: the archive is not encrypted, and holds all values and the hashes of passwords; \
             --encryption-key-file encrypts it",
        );
    }
    let options = shell.client_options().await?;
    let archive = Archive::open(&shell.arg(0), key, true).map_err(failed)?;
    let source = ClusterSource::new(open(options).await?);
    let (status, is_once) = (FollowStatus::default(), settings.once);
    let follower = BackupFollower::new(&archive, &source, settings, &status);
    let mut report = BackupReport::new(&shell.streams);
    let end = tokio::select! {
        end = follower.run() => end.map_err(failed),
        error = report.run(shell, &status) => match error {
            Err(error) => Err(error),
            Ok(never) => match never {},
        },
        stop = stopped() => stop.map_err(Exit::from),
    };
    report.finish(shell, &status)?;
    end?;
    let end = format!("the archive has all up to revision {}, entry {}", status.revision(), status.index());
    match is_once {
        true => shell.say(end),
        false => shell.say(format!("stopped: {end}; the same command goes on from there")),
    }
}

fn failed(error: ArchiveError) -> Exit {
    Exit::new(code::ERROR, error.to_string())
}

fn settings(shell: &Shell) -> Result<FollowSettings, Exit> {
    let values = &shell.values;
    let (interval, base_interval) = (values.duration("interval"), values.duration("base-interval"));
    if interval < MIN_INTERVAL || base_interval < interval {
        return Err(Exit::bad_args(
            "--interval must be 100ms or more, and --base-interval must not be shorter than it",
        ));
    }
    let keep = Some(values.duration("keep")).filter(|keep| !keep.is_zero());
    if keep.is_some_and(|keep| keep < base_interval) {
        return Err(Exit::bad_args(
            "--keep must not be shorter than --base-interval: a base is needed before the oldest time that is kept",
        ));
    }
    Ok(FollowSettings { interval, base_interval, keep, once: values.switch("once") })
}
