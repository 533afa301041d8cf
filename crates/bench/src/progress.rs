//! The bar on a terminal, with rate and remaining time; nothing elsewhere.

use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::record::Recorder;
use crate::schedule::Plan;

/// How often the bar is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// A bar until it is finished.
pub(crate) struct Progress {
    bar: ProgressBar,
    drawing: tokio::task::JoinHandle<()>,
}

impl Progress {
    /// Shows how many of a plan's requests were made, or how much of its time has passed.
    pub(crate) fn start(plan: Plan, recorders: &[Rc<Recorder>]) -> Self {
        let recorders = recorders.to_vec();
        let done = move || recorders.iter().map(|recorder| recorder.done()).sum::<u64>();
        match plan.duration {
            Some(time) => Self::draw(time.as_millis() as u64, true, done),
            None => Self::draw(plan.total, false, done),
        }
    }

    /// Labels it with what is done.
    pub(crate) fn labelled(self, what: &'static str) -> Self {
        self.bar.set_prefix(what);
        self
    }

    /// Shows a count that grows to `total`; if `timed`, `total` is milliseconds.
    pub(crate) fn draw(total: u64, timed: bool, done: impl Fn() -> u64 + 'static) -> Self {
        // indicatif draws on standard error, if that is a terminal.
        let bar = ProgressBar::new(total);
        let template = if timed {
            "{prefix}{wide_bar} {percent:>3} %  {msg}  {elapsed} (left: {eta})"
        } else {
            "{prefix}{wide_bar} {human_pos}/{human_len}  {msg}  {elapsed} (left: {eta})"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let drawn = bar.clone();
        let begin = std::time::Instant::now();
        let drawing = tokio::task::spawn_local(async move {
            let mut last = (begin, 0);
            loop {
                tokio::time::sleep(DRAW_INTERVAL).await;
                let (now, count) = (std::time::Instant::now(), done());
                let rate = (count - last.1) as f64 / (now - last.0).as_secs_f64();
                last = (now, count);
                drawn.set_message(format!("{rate:.0}/s"));
                drawn.set_position(if timed { begin.elapsed().as_millis() as u64 } else { count });
            }
        });
        Self { bar, drawing }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        self.drawing.abort();
        self.bar.finish_and_clear();
    }
}
