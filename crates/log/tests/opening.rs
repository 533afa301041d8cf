//! What an opening reads: the records behind the checkpoint, and of every other segment its opening alone.

mod rig;

use log::{CheckpointKind, Options};
use rig::{Rig, open, options};

const SEGMENT_BYTES: u64 = 64 << 10;

/// Segments that hold referenced values, far behind the checkpoint.
const SEGMENTS: u64 = 40;

#[test]
fn an_opening_reads_little_of_segments_that_are_not_replayed() {
    let options = Options { segment_bytes: SEGMENT_BYTES, ..options() };
    let mut rig = Rig::with(&options);
    while rig.reader.file_bytes() < SEGMENTS * SEGMENT_BYTES {
        let entry = rig.entry(rig.state().entries.len() as u64 + 1, 1, 4_000);
        let address = rig.append(None, vec![entry])[0];
        rig.reader.retain(address, 4_000);
    }
    assert!(rig.sync());
    assert!(rig.checkpoint(CheckpointKind::Base));
    let disk = rig.disk.fork();
    open(&disk, &options).expect("an intact log");
    // The last segment is replayed; all others are opened, and a block of each is read.
    let most = 2 * SEGMENT_BYTES + (SEGMENTS + 4) * 2 * 4096;
    assert!(disk.bytes_read() < most, "{} bytes were read, of {most} at most", disk.bytes_read());
}

#[test]
fn an_opening_does_not_read_what_was_never_written() {
    let options = Options { segment_bytes: 1 << 30, ..options() };
    let mut rig = Rig::with(&options);
    let entry = rig.entry(1, 1, 4_000);
    rig.append(None, vec![entry]);
    assert!(rig.sync());
    let disk = rig.disk.fork();
    open(&disk, &options).expect("an intact log");
    // Records are read a mebibyte at a time.
    let most = 8 << 20;
    assert!(disk.bytes_read() < most, "{} bytes were read, of {most} at most", disk.bytes_read());
}
