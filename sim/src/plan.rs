//! The shape of one run, drawn from its seed: how large, how fast, how hostile.
//!
//! Every seed draws its own mix (a *swarm*): a run with few kinds of faults goes deeper into each of them
//! than one in which
//! everything happens at once.

pub(crate) mod aim;
mod long;

use crate::coverage::Operation;
use crate::faults::{Planned, draw_schedule};
use crate::rng::{Rng, Stream};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Delays of the links between members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkShape {
    /// Least delay of a frame.
    pub(crate) base_ns: u64,
    /// What is added at most, as a rule.
    pub(crate) jitter_ns: u64,
}

/// Delays of the disks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskShape {
    /// Least time of a write and sync.
    pub(crate) base_ns: u64,
    /// What is added at most, as a rule.
    pub(crate) jitter_ns: u64,
}

/// How often clients do what, as weights.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// In the order of the requests that clients draw.
    pub(crate) weights: Vec<u64>,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Where everything comes from.
    pub(crate) seed: u64,
    /// Members of the cluster.
    pub(crate) members: usize,
    /// Members whose data may be damaged or lost: never so many that a quorum is.
    pub(crate) victims: Vec<usize>,
    /// Clients that ask.
    pub(crate) clients: usize,
    /// Clients that watch.
    pub(crate) watchers: usize,
    /// Keys they use.
    pub(crate) keys: u64,
    /// Longest value.
    pub(crate) max_value_bytes: u64,
    /// Longest pause of a client between two requests.
    pub(crate) max_think_ns: u64,
    /// How long faults strike.
    pub(crate) chaos_ns: u64,
    /// In a long run: from when until when clients and faults are busy. Empty in the others, which always are.
    pub(crate) bursts: Vec<(u64, u64)>,
    /// The operation that faults wait for, in an aimed run.
    pub(crate) focus: Option<Operation>,
    /// How long after the last fault all must be well.
    pub(crate) calm_ns: u64,
    /// Bytes of a segment.
    pub(crate) segment_bytes: u64,
    /// Bytes of recent payloads in memory.
    pub(crate) tail_bytes: u64,
    /// Bytes of values kept after lists read them: none or few, so that reads keep reaching the disk.
    pub(crate) cache_bytes: u64,
    /// Of a hundred ranges, so many are answered as lists.
    pub(crate) list_percent: u64,
    /// Commands between checkpoints.
    pub(crate) checkpoint_commands: u64,
    /// Entries kept for followers a little behind.
    pub(crate) catchup_entries: u64,
    /// Quota, 0 for none.
    pub(crate) quota_bytes: u64,
    /// Rates of the machines' clocks.
    pub(crate) rates_ppm: Vec<i64>,
    /// Links.
    pub(crate) link: LinkShape,
    /// Disks.
    pub(crate) disk: DiskShape,
    /// Requests.
    pub(crate) mix: Mix,
    /// Longest TTL of a lease, seconds.
    pub(crate) ttl_max_s: i64,
    /// The faults, in order of time.
    pub(crate) faults: Vec<Planned>,
}

impl Plan {
    /// Draws the plan of a seed.
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut rng = Rng::new(seed, Stream::Plan);
        let members = [3, 3, 3, 3, 3, 5, 5, 1][rng.below(8) as usize];
        let first_victim = rng.below(members as u64) as usize;
        let victims = (0..(members - 1) / 2).map(|n| (first_victim + n) % members).collect();
        let long_leases = rng.percent(10);
        let small = rng.percent(50);
        let mut plan = Plan {
            seed,
            members,
            victims,
            clients: rng.between(3, 14) as usize,
            watchers: rng.between(1, 4) as usize,
            keys: rng.between(2, 40),
            max_value_bytes: [32, 300, 3_000, 9_000][rng.below(4) as usize],
            max_think_ns: [20 * MS, 60 * MS, 250 * MS][rng.below(3) as usize],
            chaos_ns: rng.between(8, 30) * SECOND,
            bursts: Vec::new(),
            focus: aim::focus(seed),
            calm_ns: if long_leases { 110 * SECOND } else { 32 * SECOND },
            segment_bytes: [16 << 10, 64 << 10, 256 << 10][rng.below(3) as usize],
            tail_bytes: if small { 4 << 10 } else { 1 << 20 },
            cache_bytes: 0,
            list_percent: 0,
            checkpoint_commands: rng.between(5, 400),
            catchup_entries: rng.between(5, 500),
            quota_bytes: if rng.percent(15) { rng.between(20_000, 120_000) } else { 0 },
            rates_ppm: Vec::new(),
            link: LinkShape { base_ns: rng.between(20_000, MS), jitter_ns: rng.between(1, 3 * MS) },
            disk: DiskShape { base_ns: rng.between(50_000, MS), jitter_ns: rng.between(1, 4 * MS) },
            mix: Mix { weights: Vec::new() },
            ttl_max_s: if long_leases { 75 } else { 12 },
            faults: Vec::new(),
        };
        plan.rates_ppm = (0..members).map(|_| rng.below(20_001) as i64 - 10_000).collect();
        plan.mix.weights =
            crate::clients::WEIGHTS.iter().map(|usual| if rng.percent(20) { 0 } else { *usual }).collect();
        // Somebody must write, or nothing is tested.
        plan.mix.weights[0] = plan.mix.weights[0].max(10);
        aim::bend(&mut plan);
        if long::is_long(seed) {
            long::stretch(&mut plan);
        } else {
            plan.faults = draw_schedule(&plan, &mut Rng::new(seed, Stream::Faults));
        }
        aim::aim(&mut plan);
        plan
    }

    /// Whether it is a long run.
    pub(crate) fn is_long(&self) -> bool {
        !self.bursts.is_empty()
    }

    /// In a quiet spell of a long run: when it ends.
    pub(crate) fn quiet_until(&self, now_ns: u64) -> Option<u64> {
        let next = self.bursts.partition_point(|(_, until_ns)| *until_ns <= now_ns);
        match self.bursts.get(next) {
            Some((from_ns, _)) => (now_ns < *from_ns).then_some(*from_ns),
            None => self.is_long().then_some(u64::MAX),
        }
    }
}
