//! Connections to members, and calls on them.
//!
//! All of it runs in one thread: a generator that needs more than one costs more than what it measures. Each
//! connection has a task that moves bytes ([`link`]); clients are tasks too, several on a connection. While the task of
//! a connection reads, it wakes the clients whose answers came; they put their next requests into the connection's
//! output, and then its task writes them at once. So the more a member answers together, the less a request costs.
//!
//! | file | does |
//! |---|---|
//! | `link.rs` | a connection while it lasts, and calls on it |
//! | `lane.rs` | a connection that is made again when it was lost; tokens |
//! | `dial.rs` | sockets and TLS |
//! | `leader.rs` | finds the leader, and the members' addresses |

mod dial;
mod lane;
mod leader;
mod link;

pub(crate) use dial::Dialling;
pub(crate) use lane::{Lane, Login};
pub(crate) use leader::leader_endpoints;
pub(crate) use link::Talk;

use std::rc::Rc;

use ctl::{CallError, Endpoint};

/// Opens `count` connections, the endpoints in turn.
///
/// # Errors
/// The first connection that could not be made, or a user that was refused.
pub(crate) async fn open_lanes(
    endpoints: &[Endpoint],
    count: usize,
    dialling: &Rc<Dialling>,
    login: Option<&Login>,
) -> Result<Vec<Rc<Lane>>, CallError> {
    let mut lanes = Vec::with_capacity(count);
    for endpoint in endpoints.iter().cycle().take(count) {
        lanes.push(Rc::new(Lane::open(endpoint.clone(), Rc::clone(dialling), login.cloned()).await?));
    }
    Ok(lanes)
}
