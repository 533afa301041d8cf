//! `diff`: the keys and values in which two clusters, or two revisions, differ.
//!
//! Both sides are read page by page in the order of their keys, and merged, so memory holds two pages whatever their
//! size.

use std::io::Write;
use std::time::Duration;

use api::mvccpb;
use cli::BarKind;
use tokio::time::Instant;

use super::pages::{RangePages, next_pair, under};
use crate::client::{Client, ClientOptions};
use crate::exit::{Exit, Outcome, code};
use crate::shell::{Shell, open, parse_endpoints};

/// Time between two looks at the terminal.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);

/// How many keys are on one side only, or differ.
#[derive(Default)]
struct Count {
    equal: u64,
    added: u64,
    removed: u64,
    changed: u64,
}

impl Count {
    /// How many keys were compared, for the line on a terminal.
    fn shown(&self) -> String {
        let differ = self.added + self.removed + self.changed;
        format!("{} keys compared, {differ} differ", self.equal + differ)
    }
}

pub(super) async fn run(shell: &mut Shell) -> Outcome {
    if shell.args.len() > 1 {
        return Err(Exit::bad_args("diff takes at most one argument, a prefix"));
    }
    let (revision, other_revision) = (shell.values.int("rev"), shell.values.int("other-rev"));
    let others = shell.values.list("other");
    if others.is_empty() && revision == other_revision {
        return Err(Exit::bad_args("diff needs --other, a second cluster, or two different revisions"));
    }
    let options = shell.client_options().await?;
    let endpoints = if others.is_empty() { options.endpoints.clone() } else { parse_endpoints(&others)? };
    let second = open(ClientOptions { endpoints, ..options.clone() }).await?;
    let first = open(options).await?;
    let prefix = shell.args.first().cloned().unwrap_or_default();
    let mut left = RangePages::new(&first, under(&prefix), revision);
    let mut right = RangePages::new(&second, under(&prefix), other_revision);
    let count = compare(shell, &mut left, &mut right).await?;
    let differences = count.added + count.removed + count.changed;
    shell.complain(format!(
        "{} keys are equal, {} differ, {} are only in the first, {} only in the second (revisions {} and {})",
        count.equal,
        count.changed,
        count.removed,
        count.added,
        left.revision(),
        right.revision()
    ));
    if differences == 0 { Ok(()) } else { Err(Exit::silent(code::ERROR)) }
}

/// Walks both sides in the order of their keys.
async fn compare(
    shell: &mut Shell,
    left: &mut RangePages<'_, Client>,
    right: &mut RangePages<'_, Client>,
) -> Result<Count, Exit> {
    let keys_only = shell.values.switch("keys-only");
    let mut count = Count::default();
    let bar = shell.streams.bar(BarKind::Message, 0);
    let mut drawn = Instant::now();
    while let Some(pair) = next_pair(left, right).await? {
        if drawn.elapsed() >= DRAW_INTERVAL {
            drawn = Instant::now();
            bar.set_message(count.shown());
            bar.tick();
        }
        match pair {
            (left @ Some(_), None) => {
                count.removed += 1;
                bar.suspend(|| show(shell, '-', left, keys_only))?;
            }
            (None, right) => {
                count.added += 1;
                bar.suspend(|| show(shell, '+', right, keys_only))?;
            }
            (Some(left), Some(right)) if left.value == right.value => count.equal += 1,
            (Some(_), right) => {
                count.changed += 1;
                bar.suspend(|| show(shell, '~', right, keys_only))?;
            }
        }
    }
    bar.finish_and_clear();
    Ok(count)
}

/// A line for a difference; on a terminal in colour.
fn show(shell: &mut Shell, sign: char, kv: Option<mvccpb::KeyValue>, keys_only: bool) -> Outcome {
    let Some(kv) = kv else { return Ok(()) };
    let colour = match sign {
        _ if shell.streams.out_columns.is_none() => "",
        '-' => "\x1b[31m",
        '+' => "\x1b[32m",
        _ => "\x1b[33m",
    };
    let reset = if colour.is_empty() { "" } else { "\x1b[0m" };
    let mut line = format!("{colour}{sign} ").into_bytes();
    line.extend_from_slice(&kv.key);
    if !keys_only {
        line.extend_from_slice(b" = ");
        line.extend_from_slice(&kv.value);
    }
    // Writing into memory cannot fail.
    let _ = writeln!(line, "{reset}");
    shell.print(&line)
}
