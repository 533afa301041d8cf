//! Notifications for systemd (`Type=notify`): the member serves, it stops, and with `WatchdogSec=` it lives. Without
//! systemd nothing is sent. To send may wait for systemd, so it is done on threads that may wait.

use std::sync::Arc;
use std::time::Duration;

use libsystemd::daemon::{NotifyState, notify, watchdog_enabled};
use member::Input;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::node::Node;

/// The member serves clients.
pub(super) fn ready() {
    drop(tell(NotifyState::Ready));
}

/// The member stops. The end of the runtime waits a moment until this is sent.
pub(super) fn stopping() {
    drop(tell(NotifyState::Stopping));
}

/// Tells the watchdog, twice in the time it allows, that the raft loop still takes requests. A loop that does not
/// answer is not told about, so systemd kills and restarts the member; having no leader is no reason.
pub(super) async fn watch(node: Arc<Node>) {
    let Some(allowed) = watchdog_enabled(false).filter(|allowed| *allowed >= MIN_WATCHDOG_TIME) else {
        return;
    };
    let mut interval = tokio::time::interval(allowed / 2);
    loop {
        interval.tick().await;
        // To move leadership from this member to itself changes nothing and is answered at once, if only by an error.
        let _ = node.request(|token| Input::MoveLeader { token, to: node.member_id }).await;
        // One at a time. It fails only when the process ends.
        let _ = tell(NotifyState::Watchdog).await;
    }
}

/// A watchdog that allows less would restart a member that only waits for its turn.
const MIN_WATCHDOG_TIME: Duration = Duration::from_millis(100);

fn tell(state: NotifyState) -> JoinHandle<()> {
    spawn_blocking(move || {
        if let Err(error) = notify(false, &[state]) {
            tracing::warn!(%error, "cannot notify the service manager");
        }
    })
}
