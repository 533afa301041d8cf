//! Latencies of one phase, as they come in.
//!
//! They are kept in histograms with three digits (HDR): of the whole phase, and of each second.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;

use crate::report::{Moment, Phase, UnixSecond};
use crate::schedule::{Pacer, Ticket};

/// The longest latency that is kept apart: an hour.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Digits of a latency that count.
const DIGITS: u8 = 3;

/// Different texts of errors that are counted apart; the rest is counted together.
const MAX_ERROR_TEXTS: usize = 100;

/// The percentiles of reports, the outer ones for plots.
pub(crate) const PERCENTILES: [f64; 17] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 99.999, 100.0,
];

fn nanoseconds(latency: Duration) -> u64 {
    (latency.as_nanos() as u64).clamp(1, MAX_LATENCY_NS)
}

/// Collects what comes of requests.
pub(crate) struct Recorder {
    inner: RefCell<Inner>,
    done: Cell<u64>,
    /// Whether seconds of the wall clock are kept apart, for `--sample`.
    samples: bool,
}

struct Inner {
    begin: Instant,
    all: Histogram<u64>,
    /// Of an open loop: counted from when a client was free.
    since_taken: Histogram<u64>,
    pacers: Vec<Rc<Pacer>>,
    second: Histogram<u32>,
    second_errors: u64,
    second_number: u64,
    moments: Vec<Moment>,
    errors: BTreeMap<String, u64>,
    sum_ns: f64,
    squares: f64,
    unix_seconds: BTreeMap<u64, UnixSecond>,
}

fn histogram<C: hdrhistogram::Counter>() -> Histogram<C> {
    // The bounds are constants that the library takes.
    Histogram::new_with_bounds(1, MAX_LATENCY_NS, DIGITS).expect("bounds that fit")
}

impl Recorder {
    /// Begins a phase now.
    pub(crate) fn start(samples: bool) -> Rc<Self> {
        let inner = Inner {
            begin: Instant::now(),
            all: histogram(),
            since_taken: histogram(),
            pacers: Vec::new(),
            second: histogram(),
            second_errors: 0,
            second_number: 0,
            moments: Vec::new(),
            errors: BTreeMap::new(),
            sum_ns: 0.0,
            squares: 0.0,
            unix_seconds: BTreeMap::new(),
        };
        Rc::new(Self { inner: RefCell::new(inner), done: Cell::new(0), samples })
    }

    /// Requests so far, the failed ones included.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    /// Requests so far that succeeded.
    pub(crate) fn succeeded(&self) -> u64 {
        self.inner.borrow().all.len()
    }

    /// Counts what this pacer's clients miss until the phase ends.
    pub(crate) fn count_missed_of(&self, pacer: &Rc<Pacer>) {
        self.inner.borrow_mut().pacers.push(Rc::clone(pacer));
    }

    /// Notes a request that ended now.
    pub(crate) fn add<T, E: Display>(&self, since: Instant, outcome: &Result<T, E>) {
        let now = Instant::now();
        self.add_at(now, now.saturating_duration_since(since), outcome.as_ref().err());
    }

    /// Notes the request of a ticket, which ended now.
    pub(crate) fn add_ticket<T, E: Display>(&self, ticket: &Ticket, outcome: &Result<T, E>) {
        let now = Instant::now();
        if let (Some(taken), Ok(_)) = (ticket.taken, outcome) {
            let latency = nanoseconds(now.saturating_duration_since(taken));
            self.inner.borrow_mut().since_taken.saturating_record(latency);
        }
        self.add_at(now, now.saturating_duration_since(ticket.due), outcome.as_ref().err());
    }

    /// Notes a latency that ended now.
    pub(crate) fn add_latency(&self, latency: Duration) {
        self.add_at(Instant::now(), latency, None::<&String>);
    }

    fn add_at<E: Display>(&self, now: Instant, latency: Duration, error: Option<&E>) {
        self.done.set(self.done.get() + 1);
        let mut inner = self.inner.borrow_mut();
        inner.advance(now);
        if let Some(error) = error {
            inner.second_errors += 1;
            let text = error.to_string();
            let known = inner.errors.len() < MAX_ERROR_TEXTS || inner.errors.contains_key(&text);
            *inner.errors.entry(if known { text } else { "other errors".to_owned() }).or_default() += 1;
            return;
        }
        let nanoseconds = nanoseconds(latency);
        inner.all.saturating_record(nanoseconds);
        inner.second.saturating_record(nanoseconds);
        inner.sum_ns += nanoseconds as f64;
        inner.squares += (nanoseconds as f64).powi(2);
        if self.samples {
            let start =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(latency);
            inner.unix_seconds.entry(start.as_secs()).or_default().add(latency);
        }
    }

    /// Ends the phase. What was measured of the servers is added by the caller.
    pub(crate) fn finish(&self, name: &str) -> Phase {
        let mut inner = self.inner.borrow_mut();
        let seconds = inner.begin.elapsed().as_secs_f64();
        inner.end_second();
        let all = &inner.all;
        let requests = all.len();
        let count = requests.max(1) as f64;
        let average = inner.sum_ns / count;
        let ms = |ns: f64| ns / 1e6;
        let of = |histogram: &Histogram<u64>, percent: f64| {
            [percent, ms(histogram.value_at_quantile(percent / 100.0).min(histogram.max()) as f64)]
        };
        let since_taken = if inner.since_taken.is_empty() { &[][..] } else { &PERCENTILES };
        Phase {
            name: name.to_owned(),
            requests,
            errors: inner.errors.clone(),
            seconds,
            per_second: requests as f64 / seconds.max(1e-9),
            fastest_ms: ms(all.min() as f64),
            slowest_ms: ms(all.max() as f64),
            average_ms: ms(average),
            stddev_ms: ms((inner.squares / count - average * average).max(0.0).sqrt()),
            percentiles: PERCENTILES.iter().map(|percent| of(all, *percent)).collect(),
            since_taken: since_taken.iter().map(|percent| of(&inner.since_taken, *percent)).collect(),
            missed: inner.pacers.iter().map(|pacer| pacer.missed()).sum(),
            histogram: classes(all),
            moments: inner.moments.clone(),
            unix_seconds: inner.unix_seconds.clone(),
            ..Phase::default()
        }
    }
}

impl Inner {
    /// Ends the current second if `now` is beyond it.
    fn advance(&mut self, now: Instant) {
        let number = now.saturating_duration_since(self.begin).as_secs();
        while self.second_number < number {
            self.end_second();
            self.second_number += 1;
        }
    }

    fn end_second(&mut self) {
        let ms = |quantile: f64| self.second.value_at_quantile(quantile) as f64 / 1e6;
        self.moments.push(Moment {
            second: self.second_number,
            requests: self.second.len(),
            errors: self.second_errors,
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            p999_ms: ms(0.999),
            slowest_ms: self.second.max() as f64 / 1e6,
        });
        self.second.reset();
        self.second_errors = 0;
    }
}

/// How many latencies are at most each of eleven bounds and above the one before, in milliseconds: from the fastest to
/// the slowest at equal distances.
fn classes(all: &Histogram<u64>) -> Vec<(f64, u64)> {
    let (fastest, slowest) = (all.min() as f64, all.max() as f64);
    let bound = |number: usize| fastest + (slowest - fastest) / 10.0 * number as f64;
    let mut classes: Vec<(f64, u64)> = (0..=10).map(|number| (bound(number) / 1e6, 0)).collect();
    let mut class = 0;
    for step in all.iter_recorded() {
        // A value stands for those that differ in the fourth digit; the first and the last are exact.
        while class < 10 && step.value_iterated_to().min(all.max()) as f64 > bound(class).max(fastest * 1.001)
        {
            class += 1;
        }
        classes[class].1 += step.count_at_value();
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_has_latencies_from_when_a_client_was_free() {
        let recorder = Recorder::start(false);
        let now = Instant::now();
        let Some(due) = now.checked_sub(Duration::from_secs(100)) else { return };
        let ticket = Ticket { number: 0, due, taken: Some(now) };
        recorder.add_ticket(&ticket, &Ok::<_, String>(()));
        recorder.add_ticket(&ticket, &Err::<(), _>("too many requests"));
        let phase = recorder.finish("put");
        assert_eq!((phase.requests, phase.failed(), phase.missed), (1, 1, 0));
        assert!(phase.percentile(99.0) >= 100_000.0 && phase.percentile_since_taken(99.0) < 100_000.0);

        let recorder = Recorder::start(false);
        recorder.add_ticket(&Ticket { taken: None, ..ticket }, &Ok::<_, String>(()));
        assert!(recorder.finish("put").since_taken.is_empty(), "a closed loop has no other latencies");
    }
}
