//! Every format to the byte, as a run writes it. A change here is a change of format: it needs a new version.

mod rig;

use std::path::Path;

use log::{CheckpointKind, Disk, HardState};
use rig::{Rig, options};

/// The bytes of a file up to a length, sixteen a line.
fn dump(rig: &Rig, path: &str, length: usize) -> String {
    let file = rig.disk.open(Path::new(path)).expect("the file is there");
    let mut bytes = vec![0; length.min(file.length().expect("a length") as usize)];
    file.read_at(&mut bytes, 0).expect("the disk is well");
    let line = |(at, line): (usize, &[u8])| {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", at * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

#[test]
fn files_are_written_as_the_format_documents_say() {
    let mut rig = Rig::with(&options());
    let entries = vec![rig.entry(1, 1, 5), rig.entry(2, 1, 3)];
    let addresses = rig.append(Some(HardState { term: 1, vote: 0xa2, commit: 0 }), entries);
    assert!(rig.sync());
    rig.seal();
    assert!(rig.sync());
    assert!(rig.checkpoint(CheckpointKind::Base));
    assert!(rig.checkpoint(CheckpointKind::Delta));
    let value = log::StoredValue {
        address: addresses[0],
        len: 5,
        checksum: crc32c::crc32c(&rig.state().entries[0].payload),
    };
    let done = rig.log.relocate(vec![(value, "key".into())]).run();
    rig.log.relocated(done).expect("the disk is well");

    insta::assert_snapshot!("first_segment", dump(&rig, "/data/member/wal/00000001.seg", 4096));
    insta::assert_snapshot!("segment", dump(&rig, "/data/member/wal/00000002.seg", 0x158));
    insta::assert_snapshot!("base", dump(&rig, "/data/member/checkpoint/00000003.base", 4096));
    insta::assert_snapshot!("delta", dump(&rig, "/data/member/checkpoint/00000004.delta", 4096));
    insta::assert_snapshot!("manifest", dump(&rig, "/data/member/checkpoint/MANIFEST", 4096));
    insta::assert_snapshot!("data_segment", dump(&rig, "/data/member/data/00000005.dat", 4096));
}
