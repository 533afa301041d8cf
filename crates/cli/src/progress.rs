//! How long tasks get on: one line on standard error, if that is a terminal, and nothing elsewhere.
//!
//! A line has what is done and what is to be done with its unit, the rate and the remaining time, and fits into 80
//! columns with the largest numbers.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::streams::Streams;
use crate::text::human;

/// How often a line is drawn that nothing moves on.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// What a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Bytes, behind what is done to them: nine letters at most.
    Bytes(&'static str),
    /// Things, behind what is done to them, with what they are called: ten letters at most.
    Count(&'static str, &'static str),
    /// Seconds, of a task that takes so many.
    Seconds(&'static str),
    /// What is done, and since when: how much there is, is not known.
    Waiting(&'static str),
    /// The message that it is given, cut where the line ends.
    Message,
}

impl BarKind {
    /// The style of such a line.
    pub fn style(self) -> ProgressStyle {
        let template = match self {
            BarKind::Bytes(what) => format!(
                "{what:9} {{bar:20}} {{decimal_bytes}}/{{decimal_total_bytes}}  {{decimal_bytes_per_sec}}  {{eta}} left"
            ),
            BarKind::Count(what, unit) => {
                format!("{what:9} {{bar:20}} {{human_pos}}/{{human_len}} {unit}  {{rate}}  {{eta}} left")
            }
            BarKind::Seconds(what) => format!("{what:9} {{bar:20}} {{pos}}/{{len}} s"),
            BarKind::Waiting(what) => format!("{{spinner}} {what}  {{elapsed}}"),
            BarKind::Message => "{spinner} {wide_msg}".to_owned(),
        };
        // A test draws all of them.
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        style.with_key("rate", |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            // It writes into memory.
            let rate = human::bytes(state.per_sec() as u64);
            let _ = write!(text, "{}/s", rate.trim_end_matches('B').trim_end());
        })
    }
}

impl Streams {
    /// A line about `total` bytes, things or seconds; 0 where that is not known.
    pub fn bar(&self, kind: BarKind, total: u64) -> ProgressBar {
        let target = match self.errors_on_terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(kind.style());
        if self.errors_on_terminal && matches!(kind, BarKind::Waiting(_)) {
            bar.enable_steady_tick(TICK_INTERVAL);
        }
        bar
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps what is drawn.
    #[derive(Clone, Debug)]
    struct Screen {
        columns: u16,
        drawn: Arc<Mutex<String>>,
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            self.columns
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.drawn.lock().expect("no writer panics").push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn drawn(kind: BarKind, columns: u16, total: u64) -> String {
        let screen = Screen { columns, drawn: Arc::default() };
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        bar.set_style(kind.style());
        bar.set_message("a message that is longer than any terminal is wide, ".repeat(9));
        bar.set_position(total - total / 9);
        // It is drawn once: the first time, the terminal takes any.
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(screen.clone())));
        bar.tick();
        screen.drawn.lock().expect("no writer panics").clone()
    }

    #[test]
    fn lines_fit_into_80_columns_with_their_units() {
        let large = 999_999_999_999;
        let kinds = [
            (BarKind::Bytes("restoring"), large, " left"),
            (BarKind::Bytes("restoring"), large, "GB/1000.00 GB"),
            (BarKind::Count("applying", "objects"), 99_999_999, "/99,999,999 objects  "),
            (BarKind::Count("comparing", "keys"), 99_999_999, " left"),
            (BarKind::Seconds("putting"), 60, "/60 s"),
            (BarKind::Waiting("reading the state"), 0, "reading the state  0s"),
            (BarKind::Message, 0, "a message"),
        ];
        for (kind, total, shown) in kinds {
            for columns in [80, 200] {
                let text = drawn(kind, columns, total);
                assert!(text.contains(shown), "{kind:?} at {columns}: {text:?}");
                let longest = text.split(['\n', '\r']).map(|line| line.chars().count()).max();
                assert!(longest <= Some(usize::from(columns)), "{kind:?} at {columns}: {text:?}");
            }
        }
    }

    #[test]
    fn nothing_is_drawn_where_no_terminal_is() {
        let streams = Streams {
            input: Box::new(io::empty()),
            out: Box::new(io::sink()),
            errors: Box::new(io::sink()),
            out_columns: None,
            errors_on_terminal: false,
        };
        for kind in [BarKind::Bytes("reading"), BarKind::Waiting("reading")] {
            assert!(streams.bar(kind, 7).is_hidden());
        }
    }
}
