//! How long a cluster takes no writes when its leader ends.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::measure::cluster::{Cluster, LeaderEnd};
use crate::measure::figures::Figures;
use crate::measure::generator::Load;

/// Puts a second: so few that those which wait cost nothing when they go on.
const RATE: u64 = 200;

/// How long puts go on; the leader ends in the middle, and the slowest elections end before the end.
const SECONDS: u64 = 12;

/// When the leader ends.
const LEADER_ENDS_AFTER: Duration = Duration::from_secs(4);

/// Ends the leader under load. The "latency" is the longest time without an acknowledged put, and the errors are puts
/// that failed.
pub(super) fn failover(cluster: &mut Cluster, tools: &Path, how: LeaderEnd) -> Result<Figures, String> {
    let load = Load::ours(&format!("outage --rate={RATE} --hold={SECONDS}s"));
    let (folder, reach) = (cluster.folder().to_owned(), cluster.reach());
    thread::scope(|scope| {
        let driving = scope.spawn(|| load.drive(tools, &folder, &reach));
        thread::sleep(LEADER_ENDS_AFTER);
        let ended = cluster.end_leader(how);
        let figures = driving.join().map_err(|_| "the load's thread panicked".to_owned())?;
        ended?;
        // One figure has no percentiles, and the rate was given.
        Ok(Figures { per_second: None, p99_ms: None, p999_ms: None, ..figures? })
    })
}
