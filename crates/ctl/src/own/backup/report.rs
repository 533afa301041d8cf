//! Shows how a backup gets on: a line at the bottom of a terminal, or plain lines from time to time.

use std::convert::Infallible;
use std::time::Duration;

use archive::{FollowStatus, wall_clock_ms};
use cli::text::human;
use cli::{BarKind, Streams};
use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::exit::{Exit, Outcome};
use crate::shell::Shell;

/// Time between two changes of a terminal's line, and between two looks at the news.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Time between two lines where the output is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Where a backup is shown.
pub(super) struct BackupReport {
    bar: ProgressBar,
    is_terminal: bool,
    /// Whether the line shows how much of a base is copied.
    shows_base: bool,
    said: Instant,
}

impl BackupReport {
    pub(super) fn new(streams: &Streams) -> BackupReport {
        let bar = streams.bar(BarKind::Message, 0);
        BackupReport { bar, is_terminal: streams.errors_on_terminal, shows_base: false, said: Instant::now() }
    }

    /// Shows figures and lines as they come, forever.
    pub(super) async fn run(&mut self, shell: &mut Shell, status: &FollowStatus) -> Result<Infallible, Exit> {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.say_news(shell, status)?;
            if self.is_terminal {
                self.draw(status);
            } else if self.said.elapsed() >= LINE_INTERVAL {
                self.said = Instant::now();
                shell.say(line(status, wall_clock_ms()))?;
            }
        }
    }

    /// A line of its own for a base, with rate and remaining time.
    fn draw(&mut self, status: &FollowStatus) {
        let base = status.base_progress();
        if base.is_some() != self.shows_base {
            self.shows_base = base.is_some();
            self.bar.reset();
            self.bar.set_style(match base {
                Some(_) => BarKind::Bytes("copying").style(),
                None => BarKind::Message.style(),
            });
        }
        if let Some((done, total)) = base {
            self.bar.set_length(total);
            self.bar.set_position(done);
        } else {
            self.bar.set_message(line(status, wall_clock_ms()));
        }
        self.bar.tick();
    }

    /// Shows the lines that are left, and removes the bar.
    pub(super) fn finish(&mut self, shell: &mut Shell, status: &FollowStatus) -> Outcome {
        self.bar.finish_and_clear();
        self.say_news(shell, status)
    }

    fn say_news(&self, shell: &mut Shell, status: &FollowStatus) -> Outcome {
        for news in status.take_news() {
            self.bar.suspend(|| {
                if news.starts_with("warning: ") {
                    shell.complain(news);
                    Ok(())
                } else {
                    shell.say(news)
                }
            })?;
        }
        Ok(())
    }
}

/// How far the archive is.
fn line(status: &FollowStatus, now_ms: u64) -> String {
    let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let written = format!(
        "{} in {} and {}",
        human::bytes(status.bytes()),
        counted(status.log_objects(), "log object"),
        counted(status.bases(), "base")
    );
    let base = status.base_progress().map_or_else(String::new, |(done, total)| {
        format!("; copying the state: {} of {}", human::bytes(done), human::bytes(total))
    });
    match status.covered_ms() {
        0 => format!("{written}{base}"),
        covered => {
            let behind = now_ms.saturating_sub(covered) as f64 / 1_000.0;
            format!("at revision {}, {behind:.1} s behind; {written}{base}", status.revision())
        }
    }
}
