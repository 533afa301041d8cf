//! When requests are made.
//!
//! Clients take tickets from one [`Pacer`]. Without a rate there is always one. With a rate, tickets come at equal
//! distances, and there are two ways to read the clock:
//!
//! - *closed loop*, as etcd's `benchmark` does: a request that finds all clients busy is made later, its latency counts
//!   from then, and what was missed is not made up for. While the server stalls, nothing is measured (*coordinated
//!   omission*), so the percentiles are too good.
//! - *open loop*: requests are due at fixed times, whatever became of those before. One that finds no client free is
//!   made as soon as there is one, and its latency counts from when it was due. Example: 1,000 a second, one client, a
//!   stall of one second. The closed loop sees one slow request; the open loop sees a thousand, with latencies from one
//!   second down to nothing, which is what users would have seen. What is due and not made when the time is over has
//!   no latency, and is counted as missed.
//!
//! The clock's timer is precise to some tens of microseconds (a timer of the kernel), since it is part of what is
//! measured.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;

/// The longest time between two requests of a rate.
const MAX_INTERVAL_SECONDS: f64 = 86_400.0;

/// How many requests, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Requests to make; `u64::MAX` for no end.
    pub(crate) total: u64,
    /// Requests a second; `None` is as fast as clients can.
    pub(crate) rate: Option<f64>,
    /// Whether the rate holds whatever the server does.
    pub(crate) open_loop: bool,
    /// Time after which no more requests are made.
    pub(crate) duration: Option<Duration>,
}

impl Plan {
    /// So many requests; a rate of 0 is none.
    pub(crate) fn new(total: u64, rate: u64) -> Self {
        Self { total, rate: (rate > 0).then_some(rate as f64), open_loop: false, duration: None }
    }
}

/// The right to make a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Counted from 0.
    pub(crate) number: u64,
    /// From when its latency counts.
    pub(crate) due: Instant,
    /// When a client was free to make it, in an open loop: never before it was due.
    pub(crate) taken: Option<Instant>,
}

/// Gives out the tickets of one run.
pub(crate) struct Pacer {
    plan: Plan,
    interval: Duration,
    end: Option<Instant>,
    next: Cell<u64>,
    next_due: Cell<Instant>,
    stopped: Cell<bool>,
    waiting: RefCell<VecDeque<Waker>>,
    has_waiting: tokio::sync::Notify,
}

impl Pacer {
    /// Starts the clock of a plan.
    pub(crate) fn start(plan: Plan) -> Rc<Self> {
        let now = Instant::now();
        let pacer = Rc::new(Self {
            interval: plan.rate.map_or(Duration::ZERO, |rate| {
                Duration::from_secs_f64((1.0 / rate).min(MAX_INTERVAL_SECONDS))
            }),
            end: plan.duration.map(|duration| now + duration),
            plan,
            next: Cell::new(0),
            next_due: Cell::new(now),
            stopped: Cell::new(false),
            waiting: RefCell::default(),
            has_waiting: tokio::sync::Notify::new(),
        });
        if plan.rate.is_some() {
            tokio::task::spawn_local(keep_time(Rc::clone(&pacer)));
        }
        pacer
    }

    /// No more tickets.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.waiting.borrow_mut().drain(..).for_each(Waker::wake);
        self.has_waiting.notify_one();
    }

    /// The next ticket when it is due, or none when the run is over.
    pub(crate) async fn next(&self) -> Option<Ticket> {
        poll_fn(|cx| self.poll_next(cx, Instant::now())).await
    }

    fn poll_next(&self, cx: &Context<'_>, now: Instant) -> Poll<Option<Ticket>> {
        if self.is_over(now) {
            return Poll::Ready(None);
        }
        let due = self.next_due.get();
        if self.plan.rate.is_some() && now < due {
            self.waiting.borrow_mut().push_back(cx.waker().clone());
            self.has_waiting.notify_one();
            return Poll::Pending;
        }
        let number = self.next.replace(self.next.get() + 1);
        if !self.plan.open_loop {
            // What was missed is forgotten, except for the lateness of the timer.
            let is_late = now.saturating_duration_since(due) >= self.interval;
            self.next_due.set(if is_late { now } else { due } + self.interval);
            return Poll::Ready(Some(Ticket { number, due: now, taken: None }));
        }
        self.next_due.set(due + self.interval);
        Poll::Ready(Some(Ticket { number, due, taken: Some(now) }))
    }

    fn is_over(&self, now: Instant) -> bool {
        let late = |end: Instant| now >= end || self.plan.rate.is_some() && self.next_due.get() >= end;
        self.stopped.get() || self.next.get() >= self.plan.total || self.end.is_some_and(late)
    }

    /// Requests of an open loop with a duration that were due and not made, because all clients were busy. Asked when
    /// the run is over.
    pub(crate) fn missed(&self) -> u64 {
        self.missed_until(Instant::now())
    }

    fn missed_until(&self, now: Instant) -> u64 {
        let (true, Some(end)) = (self.plan.open_loop && self.plan.rate.is_some(), self.end) else { return 0 };
        let late = end.min(now).saturating_duration_since(self.next_due.get());
        let missed = late.as_nanos().div_ceil(self.interval.as_nanos().max(1));
        u64::try_from(missed).unwrap_or(u64::MAX).min(self.plan.total.saturating_sub(self.next.get()))
    }
}

/// Wakes a waiting client whenever a ticket is due.
async fn keep_time(pacer: Rc<Pacer>) {
    let Ok(timer) = Timer::new() else { return pacer.stop() };
    loop {
        if pacer.is_over(Instant::now()) {
            return pacer.stop();
        }
        if pacer.waiting.borrow().is_empty() {
            pacer.has_waiting.notified().await;
            continue;
        }
        let wait = pacer.next_due.get().saturating_duration_since(Instant::now());
        if !wait.is_zero() && timer.wait(wait).await.is_err() {
            return pacer.stop();
        }
        let first = pacer.waiting.borrow_mut().pop_front();
        first.into_iter().for_each(Waker::wake);
        // The client takes its ticket, which moves the clock on.
        tokio::task::yield_now().await;
    }
}

/// A timer of the kernel: tokio's are late by up to a millisecond.
struct Timer(AsyncFd<std::os::fd::OwnedFd>);

impl Timer {
    #[expect(
        deprecated,
        reason = "its successor is unsafe: for types that lie about their descriptor; this one owns it"
    )]
    fn new() -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(AsyncFd::new(rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    async fn wait(&self, time: Duration) -> std::io::Result<()> {
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: never, it_value: time };
        rustix::time::timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)) {
                Ok(read) => return read.map(drop),
                Err(_) => continue,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pacer of ten requests at most, a hundred a second, for a second from `begin` on.
    fn pacer(open_loop: bool, begin: Instant) -> Pacer {
        Pacer {
            plan: Plan { open_loop, ..Plan::new(10, 100) },
            interval: Duration::from_millis(10),
            end: Some(begin + Duration::from_secs(1)),
            next: Cell::new(0),
            next_due: Cell::new(begin),
            stopped: Cell::new(false),
            waiting: RefCell::default(),
            has_waiting: tokio::sync::Notify::new(),
        }
    }

    /// The tickets of a pacer that is asked at these times, in milliseconds: from when each counts, or -1 for none yet.
    fn tickets(open_loop: bool, times: &[u64]) -> Vec<i64> {
        let begin = Instant::now();
        let pacer = pacer(open_loop, begin);
        let cx = Context::from_waker(Waker::noop());
        let ask = |time: &u64| match pacer.poll_next(&cx, begin + Duration::from_millis(*time)) {
            Poll::Pending => -1,
            Poll::Ready(None) => -2,
            Poll::Ready(Some(ticket)) => (ticket.due - begin).as_millis() as i64,
        };
        times.iter().map(ask).collect()
    }

    #[test]
    fn an_open_loop_counts_from_when_a_request_was_due() {
        assert_eq!(tickets(true, &[0, 5, 10, 50, 50, 50, 50, 50]), [0, -1, 10, 20, 30, 40, 50, -1]);
        let late: Vec<i64> = (0..10).map(|number| number * 10).collect();
        assert_eq!(tickets(true, &[99; 11])[..10], late, "what was due is made, however late");
        assert_eq!(tickets(true, &[2000]), [-2], "none is made after the end");
        assert_eq!(tickets(false, &[1000]), [-2], "the closed loop makes none after the end");
    }

    #[test]
    fn a_closed_loop_forgets_what_it_missed() {
        assert_eq!(tickets(false, &[0, 5, 10, 50, 50, 50]), [0, -1, 10, 50, -1, -1]);
    }

    #[test]
    fn what_is_due_and_not_made_before_the_end_is_missed() {
        let begin = Instant::now();
        let missed = |open_loop: bool, total: u64, taken: usize| {
            let mut pacer = pacer(open_loop, begin);
            pacer.plan.total = total;
            let cx = Context::from_waker(Waker::noop());
            (0..taken)
                .for_each(|_| assert!(pacer.poll_next(&cx, begin + Duration::from_millis(900)).is_ready()));
            pacer.missed_until(begin + Duration::from_secs(5))
        };
        assert_eq!(missed(true, u64::MAX, 30), 70);
        assert_eq!(missed(true, 50, 30), 20, "no more are wanted");
        assert_eq!(missed(true, u64::MAX, 91), 9);
        assert_eq!(missed(false, u64::MAX, 1), 0, "a closed loop has none");
    }
}
