//! Shows how a copy gets on: a line at the bottom of a terminal, or plain lines from time to time.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::board::{FollowBoard, FollowFigures, FollowPhase, SourceLag};
use super::calls::{CALL_TIMEOUT, PatientClient};
use crate::client::CallError;
use crate::exit::Exit;
use crate::shell::Shell;

/// Time between two looks at the source's revision, and two changes of a terminal's line.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A bar for keys that are counted.
const KEYS_STYLE: &str = "{bar:20} {human_pos}/{human_len} keys  {eta} left  {wide_msg}";

/// A line without an end.
const FOLLOW_STYLE: &str = "{spinner} {wide_msg}";

/// Where a copy is shown.
pub(super) struct FollowReport {
    bar: ProgressBar,
    is_terminal: bool,
    phase: FollowPhase,
    lag: SourceLag,
    said: Option<Instant>,
}

impl FollowReport {
    pub(super) fn new(is_terminal: bool) -> Self {
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let (phase, lag) = (FollowPhase::Beginning, SourceLag::default());
        Self { bar, is_terminal, phase, lag, said: None }
    }

    /// Shows figures and lines as they come, forever.
    pub(super) async fn run(
        &mut self,
        shell: &mut Shell,
        board: &FollowBoard,
        interval: Duration,
    ) -> Result<std::convert::Infallible, Exit> {
        loop {
            let noted = tokio::time::timeout(LOOK_INTERVAL.min(interval), board.noted()).await;
            self.say_notes(shell, board)?;
            self.show(board.figures());
            if noted.is_err() {
                self.say_figures(shell, board.figures(), interval)?;
            }
        }
    }

    /// Shows the lines that are left, and removes the bar.
    pub(super) fn finish(&mut self, shell: &mut Shell, board: &FollowBoard) -> Result<(), Exit> {
        self.bar.finish_and_clear();
        self.say_notes(shell, board)
    }

    fn say_notes(&self, shell: &mut Shell, board: &FollowBoard) -> Result<(), Exit> {
        for note in board.take_notes() {
            self.bar.suspend(|| shell.say(note))?;
        }
        Ok(())
    }

    fn show(&mut self, figures: FollowFigures) {
        if !self.is_terminal {
            return;
        }
        if figures.phase != self.phase {
            self.phase = figures.phase;
            self.bar.reset();
            let counts = matches!(figures.phase, FollowPhase::Copying | FollowPhase::Verifying);
            let style = ProgressStyle::with_template(if counts { KEYS_STYLE } else { FOLLOW_STYLE });
            if let Ok(style) = style {
                self.bar.set_style(style);
            }
        }
        if matches!(figures.phase, FollowPhase::Copying | FollowPhase::Verifying) {
            self.bar.set_length(figures.all_keys);
            self.bar.set_position(figures.keys);
        }
        let (behind, since) = self.lag.sample(Instant::now(), figures.source, figures.applied);
        let message = match figures.phase {
            FollowPhase::Beginning => "connecting".to_owned(),
            FollowPhase::Copying => format!("{} written", figures.written),
            FollowPhase::Verifying => "compared".to_owned(),
            FollowPhase::Following => follow_line(figures, behind, since),
        };
        self.bar.set_message(message);
        self.bar.tick();
    }

    /// Prints a line, where that is due and no terminal shows the figures.
    fn say_figures(
        &mut self,
        shell: &mut Shell,
        figures: FollowFigures,
        interval: Duration,
    ) -> Result<(), Exit> {
        let now = Instant::now();
        if self.is_terminal {
            return Ok(());
        }
        let (behind, since) = self.lag.sample(now, figures.source, figures.applied);
        if self.said.is_some_and(|at| now - at < interval) {
            return Ok(());
        }
        self.said = Some(now);
        let FollowFigures { keys, all_keys, written, .. } = figures;
        match figures.phase {
            FollowPhase::Beginning => Ok(()),
            FollowPhase::Copying => shell.say(format!("copied {keys} of {all_keys} keys, {written} written")),
            FollowPhase::Verifying => shell.say(format!("compared {keys} of {all_keys} keys")),
            FollowPhase::Following => shell.say(follow_line(figures, behind, since)),
        }
    }
}

/// How far the destination is behind.
fn follow_line(figures: FollowFigures, behind: i64, since: Duration) -> String {
    let FollowFigures { applied, written, .. } = figures;
    format!(
        "at revision {applied}, {behind} revisions and {:.1} s behind, {written} keys written",
        since.as_secs_f64()
    )
}

/// Asks the source for its revision again and again. Failures are the business of others: they make the same calls.
pub(super) async fn watch_revision(
    source: &PatientClient,
    key: &bytes::Bytes,
    board: &FollowBoard,
) -> std::convert::Infallible {
    loop {
        let request =
            api::etcdserverpb::RangeRequest { key: key.clone(), count_only: true, ..Default::default() };
        let deadline = Some(Instant::now() + CALL_TIMEOUT);
        let answer: Result<api::etcdserverpb::RangeResponse, CallError> =
            source.client.read(api::methods::KV_RANGE, &request, deadline).await;
        if let Ok(revision) = answer.map(|answer| answer.header.map_or(0, |header| header.revision)) {
            board.update(|figures| figures.source = figures.source.max(revision));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
