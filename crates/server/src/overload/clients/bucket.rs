//! A token bucket: tokens come at a rate, a second of them fits in, and it may be in debt.
//!
//! Levels are kept as what is *missing* from a full bucket. So a bucket needs no rate before it is used, and one whose
//! rate is changed stays as full, or as much in debt, as it was in tokens.

use std::time::{Duration, Instant};

/// The debt is at most what this much time pays, so that no client is refused for longer for one large answer.
const MAX_DEBT: Duration = Duration::from_secs(60);

/// Time in which a bucket without debt is full again, whatever its rate; and the time of what fits in.
const DEPTH: Duration = Duration::from_secs(1);

/// A bucket. See the module.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Tokens that were taken and have not come again, as of `at`.
    missing: f64,
    at: Instant,
    /// When it is full at the rate that was last used.
    full_at: Instant,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(now: Instant) -> Bucket {
        Bucket { missing: 0.0, at: now, full_at: now }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// When there is none: after which time there will be one.
    pub(super) fn take_one(&mut self, rate: u64, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        let excess = self.missing + 1.0 - depth(rate);
        if excess > 0.0 {
            return Err(time_of(excess, rate));
        }
        self.take(1.0, rate);
        Ok(())
    }

    /// Whether it is not in debt; takes nothing.
    ///
    /// # Errors
    /// When it is: after which time it will not be.
    pub(super) fn until_out_of_debt(&mut self, rate: u64, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        let debt = self.missing - depth(rate);
        if debt > 0.0 { Err(time_of(debt, rate)) } else { Ok(()) }
    }

    /// Takes tokens whether they are there or not, by the clock of the last look.
    pub(super) fn take_in_debt(&mut self, tokens: u64, rate: u64) {
        let most = depth(rate) + rate as f64 * MAX_DEBT.as_secs_f64();
        let tokens = (tokens as f64).min((most - self.missing).max(0.0));
        self.take(tokens, rate);
    }

    /// Whether nothing is missing.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        now >= self.full_at
    }

    fn take(&mut self, tokens: f64, rate: u64) {
        self.missing += tokens;
        self.full_at = self.at + time_of(self.missing, rate);
    }

    fn refill(&mut self, rate: u64, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        self.missing = (self.missing - elapsed.as_secs_f64() * rate as f64).max(0.0);
        self.at = self.at.max(now);
    }
}

/// Tokens that fit in: at least one.
fn depth(rate: u64) -> f64 {
    (rate as f64 * DEPTH.as_secs_f64()).max(1.0)
}

/// The time in which so many tokens come.
fn time_of(tokens: f64, rate: u64) -> Duration {
    Duration::try_from_secs_f64(tokens / rate.max(1) as f64).unwrap_or(MAX_DEBT)
}
