//! `backup verify`: reads every object of an archive, and says what can be restored.

use super::{open, shown_time};
use crate::line::{CommandEnd, CommandLine, Refusal};

/// Damaged objects that are listed; more are counted.
const MAX_LISTED: usize = 100;

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    let reader = open(line)?;
    let mut damaged = Vec::new();
    let bar = line.bytes_bar("checking", reader.stored_bytes()?);
    let spans = reader.check(&mut |bytes| bar.inc(bytes), &mut |error| damaged.push(error.to_string()));
    bar.finish_and_clear();
    for span in &spans? {
        line.say(&format!(
            "revisions {} to {}, {} to {}, entries {} to {}",
            span.base.revision,
            span.revision,
            shown_time(span.base.time_ms),
            shown_time(span.time_ms),
            span.base.index,
            span.last_index
        ))?;
    }
    let count = damaged.len();
    if count == 0 {
        return line.say("each state of these can be restored");
    }
    damaged.truncate(MAX_LISTED);
    Err(Refusal::error(format!("{count} objects are damaged:\n{}", damaged.join("\n"))))
}
