//! `lease-keepalive`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use api::etcdserverpb as pb;
use api::methods;
use prost::Message;

use crate::cli::etcd::LeaseOptions;
use crate::session::BenchSession;

/// Seconds that each lease lives: those of `benchmark`.
const TTL: i64 = 100;

/// Grants a lease for each client, and renews them. As `benchmark` does, each renewal is a stream of its own.
pub(super) async fn run(session: &mut BenchSession, options: &LeaseOptions) -> Result<(), String> {
    let mut leases = VecDeque::new();
    for number in 0..session.reach.clients as usize {
        let request = pb::LeaseGrantRequest { ttl: TTL, id: 0 };
        let granted: Result<pb::LeaseGrantResponse, _> =
            session.lane(number).ask(methods::LEASE_GRANT, &request).await;
        leases.push_back(granted.map_err(|error| format!("cannot grant a lease: {error}"))?.id);
    }
    // A client takes a lease, and puts it back: no lease is renewed twice at a time.
    let leases = Rc::new(RefCell::new(leases));
    let plan = session.plan(options.total, 0);
    let phases = session.drive(plan, &["lease-keepalive"], move |lane, ticket, recorders| {
        let leases = Rc::clone(&leases);
        async move {
            let id = leases.borrow_mut().pop_front().unwrap_or_default();
            let request = pb::LeaseKeepAliveRequest { id };
            let outcome = lane.call(methods::LEASE_KEEP_ALIVE, &request.encode_to_vec()).await;
            recorders[0].add_ticket(&ticket, &outcome);
            leases.borrow_mut().push_back(id);
        }
    });
    for phase in phases.await {
        session.show(phase);
    }
    Ok(())
}
