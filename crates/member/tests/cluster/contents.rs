//! What members hold: their files, damage to them, and whether their states are equal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use api::etcdserverpb as pb;
use log::Disk;

use crate::rig::Cluster;

impl Cluster {
    /// Flips a bit in a member's only copy of a key's newest value.
    pub(crate) fn damage(&mut self, at: u64, key: &str) {
        let node = &self.nodes[&at];
        let range = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
        let reply = node.opened.reader.range(&range).expect("in range");
        let address = reply.kvs[0].value.address;
        let name = format!("{:08x}", log::file_of(address));
        let offset = u64::from(log::offset_of(address)) + 1;
        let dirs = ["/data/member/wal", "/data/member/data"].map(Path::new);
        let in_dir = |dir: &Path| {
            let names = node.disk.list(dir).unwrap_or_default().into_iter();
            names.map(|name| dir.join(name)).collect::<Vec<_>>()
        };
        let mut files = dirs.into_iter().flat_map(in_dir);
        let is_it = |path: &PathBuf| path.file_stem().is_some_and(|stem| *stem == *name);
        let file = files.find(is_it).expect("the file is there");
        node.disk.flip_bit(&file, offset, 3).expect("it can be written");
    }

    /// The checkpoint files of a member, in the order of their numbers: the base first.
    pub(crate) fn checkpoint_files(&self, at: u64) -> Vec<PathBuf> {
        let dir = Path::new("/data/member/checkpoint");
        let names = self.nodes[&at].disk.list(dir).expect("the disk is well");
        let mut files: Vec<PathBuf> = names.into_iter().map(|name| dir.join(name)).collect();
        files.retain(|path| path.extension().is_some_and(|kind| kind == "base" || kind == "delta"));
        files.sort();
        files
    }

    /// HashKV of one member.
    pub(crate) fn hash_kv(&self, at: u64) -> (u32, i64) {
        let mut hashing = self.nodes[&at].opened.reader.hash_kv(0).expect("in range");
        loop {
            if let Some(reply) = hashing.step().expect("no snapshot is installed") {
                return (reply.hash, reply.hash_revision);
            }
        }
    }

    pub(crate) fn assert_equal(&self) {
        let hashes: BTreeSet<(u32, i64)> = self.nodes.keys().map(|id| self.hash_kv(*id)).collect();
        assert_eq!(hashes.len(), 1, "members differ");
        let states: BTreeSet<u64> =
            self.nodes.values().map(|node| node.opened.reader.state_hash().1).collect();
        assert_eq!(states.len(), 1, "states differ");
    }
}
