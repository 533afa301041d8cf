//! Creates a log: its first segment, then the manifest, which is the commit point.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::BytesMut;

use crate::checkpoint::Manifest;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{
    FileHeader, FileType, HEADER_BYTES, Layout, RecordHead, RecordKind, SEGMENT_SUFFIX, SegmentOpening,
    UNFINISHED_SUFFIX, file_name, list, parse_name, salt, span,
};
use crate::options::Options;
use crate::types::Identity;

/// The segment that creating a log writes; it holds only its opening.
pub(super) const FIRST_SEGMENT: u32 = 1;
pub(super) const FIRST_SEGMENT_BYTES: u64 = HEADER_BYTES + span(SegmentOpening::BYTES);

/// Whether a data directory holds a log. One that belongs to etcd is an error.
pub(crate) fn exists(disk: &dyn Disk, options: &Options) -> Result<bool, OpenError> {
    let layout = Layout::new(options);
    layout.refuse_etcd(disk)?;
    let path = layout.manifest();
    disk.exists(&path).map_err(OpenError::io("look for", &path))
}

/// See [`crate::Log::has_checkpoint`].
pub(crate) fn has_checkpoint(disk: &dyn Disk, options: &Options) -> Result<bool, OpenError> {
    Ok(exists(disk, options)? && !Manifest::read(disk, &Layout::new(options).manifest())?.chain.is_empty())
}

/// Creates an empty log, durably. After a crash, it can be called again.
pub(crate) fn create(disk: &Arc<dyn Disk>, options: &Options, identity: Identity) -> Result<(), OpenError> {
    let layout = Layout::new(options);
    layout.refuse_etcd(disk.as_ref())?;
    layout.create_directories(disk.as_ref())?;
    let _lock = layout.lock(disk.as_ref())?;
    let manifest_path = layout.manifest();
    if disk.exists(&manifest_path).map_err(OpenError::io("look for", &manifest_path))? {
        return Err(OpenError::Present { path: options.data_dir.clone() });
    }
    refuse_orphans(disk.as_ref(), &layout)?;
    write_first_segment(disk.as_ref(), &layout, identity)?;
    let manifest = Manifest { identity, next_number: FIRST_SEGMENT + 1, chain: Vec::new() };
    let written = manifest.write_unfinished(disk.as_ref(), &layout);
    let replaced = written.and_then(|()| Manifest::replace_by_unfinished(disk.as_ref(), &layout));
    replaced.map_err(OpenError::io("write", &manifest_path))
}

/// Refuses segments without a manifest, except the one that an interrupted creation leaves.
pub(super) fn refuse_orphans(disk: &dyn Disk, layout: &Layout) -> Result<(), OpenError> {
    for name in list(disk, &layout.wal)? {
        let Some((number, SEGMENT_SUFFIX)) = parse_name(&name) else { continue };
        let path = layout.wal.join(&name);
        let file = disk.open(&path).map_err(OpenError::io("open", &path))?;
        let length = file.length().map_err(OpenError::io("measure", &path))?;
        if number != FIRST_SEGMENT || length != FIRST_SEGMENT_BYTES {
            return Err(OpenError::NoManifest { manifest: layout.manifest(), segment: path });
        }
    }
    Ok(())
}

fn write_first_segment(disk: &dyn Disk, layout: &Layout, identity: Identity) -> Result<(), OpenError> {
    let opening = SegmentOpening { first_index: 1, ..SegmentOpening::default() }.encode();
    let head = RecordHead {
        segment: FIRST_SEGMENT,
        length: opening.len() as u32,
        kind: RecordKind::Opening,
        synced: 0,
        checksum: crc32c::crc32c(&opening),
    };
    let header = FileHeader { file_type: FileType::Segment, number: FIRST_SEGMENT, identity };
    let mut bytes = BytesMut::from(&header.encode()[..]);
    head.encode(salt(identity.incarnation), &mut bytes);
    bytes.extend_from_slice(&opening);
    bytes.resize(FIRST_SEGMENT_BYTES as usize, 0);
    let path = layout.segment(FIRST_SEGMENT);
    let unfinished = layout.wal.join(file_name(FIRST_SEGMENT, UNFINISHED_SUFFIX));
    let write = || {
        if disk.exists(&unfinished)? {
            disk.remove(&unfinished)?;
        }
        let file = disk.create_new(&unfinished)?;
        file.write_at(&[IoSlice::new(&bytes)], 0)?;
        file.sync_data()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(&layout.wal)
    };
    write().map_err(OpenError::io("create", &path))
}
