//! A data directory in which every byte may be anything is opened as a log.
//!
//! A log that opens can be read to its end, accepts an entry after its last one, and opens again with that entry at its
//! end.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use log::{Disk, Entry, Log, Opened, RecordSizes, WriteJob};

use crate::input::fixture::options;
use crate::input::image;

/// Reads a script as [`image::lay_out`] does.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let disk = image::lay_out(data);
    let Some((held, appended)) = first_life(&(Arc::new(disk.clone()) as Arc<dyn Disk>)) else {
        return;
    };
    let again: Arc<dyn Disk> = Arc::new(disk.fork());
    let opened = match Log::open(&again, &options()) {
        // The file that was begun took the last number.
        Err(error) if error.to_string().contains("file numbers are used up") => return,
        opened => opened.expect("what was opened and synced opens again"),
    };
    // What a checkpoint made unnecessary may be forgotten, now that a later segment is there.
    assert!(opened.recovered.first_index >= *held.start(), "no entry came from nowhere");
    assert_eq!(opened.recovered.last_index, appended.index, "the last entry is the one appended");
    let last = entries(&opened).pop();
    assert_eq!(last, Some(Ok(appended)), "what was appended and synced is there");
}

/// Opens and reads everything, then appends an entry.
fn first_life(disk: &Arc<dyn Disk>) -> Option<(RangeInclusive<u64>, Entry)> {
    let mut opened = Log::open(disk, &options()).ok()?;
    if let Some(checkpoint) = &opened.recovered.checkpoint {
        checkpoint.files().into_iter().flatten().flatten().for_each(drop);
    }
    drop(entries(&opened));
    opened.log.loaded().ok()?;
    let (first, last) = (opened.recovered.first_index, opened.recovered.last_index);
    let previous = opened.log.term(last).unwrap_or_default();
    let entry = Entry {
        term: previous.max(opened.recovered.hard_state.term),
        index: last + 1,
        kind: 0,
        payload: "value".into(),
    };
    let mut sizes = RecordSizes::default();
    sizes.add_entry(entry.payload.len() as u64);
    while !opened.log.make_room(&sizes, None) {
        let job = opened.log.next_job()?;
        opened.log.background_done(job.run()).ok()?;
    }
    let append = opened.log.append(None, vec![entry.clone()]);
    let done = WriteJob::run_all(vec![append.job], &|| Duration::ZERO);
    opened.log.complete(done).ok()?;
    Some((first..=last, entry))
}

fn entries(opened: &Opened) -> Vec<Result<Entry, String>> {
    let entries = opened.log.entries_from(opened.recovered.first_index);
    entries.map(|entry| entry.map(|(entry, _)| entry).map_err(|error| error.to_string())).collect()
}
