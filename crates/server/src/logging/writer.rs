//! The thread of one output: takes lines from its queue and writes them. Only this thread waits for the output.

use std::io;
use std::sync::Arc;

use prometheus::IntCounter;
use serde_json::Value;
use tracing_subscriber::fmt::time::SystemTime;

use super::line::LineForm;
use super::output::OpenOutput;
use super::queue::{LineQueue, QueuedLine, TakenLines};
use super::record::LogRecord;

/// What a writing thread works with.
pub(super) struct LineWriter {
    /// What it takes lines from.
    pub(super) queue: Arc<LineQueue>,
    /// What it writes them to.
    pub(super) output: OpenOutput,
    /// The output in the words of `--log-outputs`.
    pub(super) name: String,
    /// The form of the lines that it writes by itself.
    pub(super) form: LineForm,
    /// Counts lines that the output refused.
    pub(super) dropped: IntCounter,
}

impl LineWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses it.
    pub(super) fn start(self) -> io::Result<()> {
        std::thread::Builder::new().name("stele-logger".to_owned()).spawn(move || self.run())?;
        Ok(())
    }

    fn run(mut self) -> ! {
        let mut untold = 0;
        loop {
            let TakenLines { lines, dropped, reopen } = self.queue.take();
            if reopen && let Err(error) = self.output.reopen() {
                self.warn("cannot open the log file again", vec![("error", error.to_string().into())]);
            }
            for line in &lines {
                // There is nowhere else to report it; an output that fails may work again later.
                if self.output.write(line).is_err() {
                    self.dropped.inc();
                    untold += 1;
                }
            }
            untold += dropped;
            if untold > 0 && self.warn(DROPPED, vec![("dropped", untold.into())]) {
                untold = 0;
            }
        }
    }

    /// Writes a line of its own. Returns whether the output took it.
    fn warn(&mut self, message: &str, mut fields: Vec<(&str, Value)>) -> bool {
        fields.push(("output", self.name.as_str().into()));
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let record = LogRecord::own_warning(&SystemTime, message, fields);
        let text = self.form.line(&record);
        let line =
            QueuedLine { level: record.level, caller: record.caller.as_str().into(), text: text.into() };
        self.output.write(&line).is_ok()
    }
}

/// What is logged about lines that are missing.
const DROPPED: &str = "dropped lines of the log: the output did not take them in time, or refused them";
