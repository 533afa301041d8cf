//! Shows how a backup gets on: a line at the bottom of a terminal, or plain lines from time to time.

use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use archive::FollowStatus;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
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
    said: Instant,
}

impl BackupReport {
    pub(super) fn new(is_terminal: bool) -> BackupReport {
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        BackupReport { bar, is_terminal, said: Instant::now() }
    }

    /// Shows figures and lines as they come, for ever.
    pub(super) async fn run(&mut self, shell: &mut Shell, status: &FollowStatus) -> Result<Infallible, Exit> {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.say_news(shell, status)?;
            if self.is_terminal {
                self.bar.set_message(line(status, now_ms()));
                self.bar.tick();
            } else if self.said.elapsed() >= LINE_INTERVAL {
                self.said = Instant::now();
                shell.say(line(status, now_ms()))?;
            }
        }
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
    let written = format!(
        "{} in {} log objects and {} bases",
        HumanBytes(status.bytes()),
        status.log_objects(),
        status.bases()
    );
    let base = status.base_progress().map_or_else(String::new, |(done, total)| {
        format!("; copying the state: {} of {}", HumanBytes(done), HumanBytes(total))
    });
    match status.covered_ms() {
        0 => format!("{written}{base}"),
        covered => {
            let behind = now_ms.saturating_sub(covered) as f64 / 1_000.0;
            format!("at revision {}, {behind:.1} s behind; {written}{base}", status.revision())
        }
    }
}

fn now_ms() -> u64 {
    // Before 1970 there were no backups.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
