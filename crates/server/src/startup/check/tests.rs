//! What is found, and that nothing changes.
//!
//! The directories are real ones: what is checked is that the disk below the preview stays as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::config::Parsed;

fn config(data_dir: &Path, flags: &str) -> ServerConfig {
    let line = format!("stele --check --data-dir={} {flags}", data_dir.display());
    match crate::config::parse(line.split_whitespace().map(Into::into), std::iter::empty()).expect("good") {
        Parsed::Check(config) => *config,
        other => panic!("{other:?}"),
    }
}

/// Every file below a directory.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.display().to_string(), fs::read(&path).expect("a file"));
        }
    }
    found
}

#[test]
fn a_directory_is_opened_and_left_as_it_was() {
    let dir = tempfile::tempdir().expect("directory");
    let data = dir.path().join("data");
    let config = config(&data, "--name=a");
    let found = check(&config).expect("good");
    assert!(found.ends_with("holds no data: a member of a new cluster would begin there"), "{found}");
    assert!(!data.exists(), "nothing was made");

    let options = log::Options::new(data.clone());
    let disk: Arc<dyn log::Disk> = Arc::new(log::RealDisk);
    drop(member::open(&disk, &options, describe::member_config(&config, 0), &ScopedThreads).expect("made"));
    let before = contents(&data);
    let found = check(&config).expect("good");
    assert!(found.ends_with("with 0 keys at revision 1"), "{found}");
    assert_eq!(contents(&data), before);
    assert!(before.len() > 2, "there was something to change: {:?}", before.keys());

    let held = member::open(&disk, &options, describe::member_config(&config, 0), &ScopedThreads);
    let error = check(&config).expect_err("a member runs there").to_string();
    assert!(error.contains("in use"), "{error}");
    drop(held);

    let manifest = before.keys().find(|path| path.ends_with("MANIFEST")).expect("one");
    fs::write(manifest, "damaged").expect("room");
    assert!(check(&config).is_err());
}

#[test]
fn the_files_of_one_side_are_checked_though_the_other_generates_its_certificate() {
    let dir = tempfile::tempdir().expect("directory");
    let flags = "--auto-tls --listen-client-urls=https://127.0.0.1:1 --advertise-client-urls=https://127.0.0.1:1 \
                 --listen-peer-urls=https://127.0.0.1:2 --initial-advertise-peer-urls=https://127.0.0.1:2 \
                 --initial-cluster=default=https://127.0.0.1:2 --peer-cert-file=/nonexistent/c \
                 --peer-key-file=/nonexistent/k";
    let error = check(&config(&dir.path().join("data"), flags)).expect_err("no such file").to_string();
    assert!(error.contains("/nonexistent/"), "{error}");
    assert!(!dir.path().join("data").exists(), "nothing was made");
}

#[test]
fn a_file_is_open_only_while_it_is_read() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("segment");
    fs::write(&path, "abc").expect("room");
    let opened = || {
        let open = fs::read_dir("/proc/self/fd").expect("procfs").flatten();
        open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path)).count()
    };
    let disk: &dyn log::Disk = &PreviewDisk::default();
    let file = disk.open(&path).expect("a file");
    assert_eq!(opened(), 1);
    file.write_at(&[io::IoSlice::new(b"x")], 1).expect("memory");
    drop(file);
    assert_eq!(opened(), 0);
    let mut buffer = [0; 3];
    let file = disk.open(&path).expect("a file");
    assert_eq!((file.read_at(&mut buffer, 0).expect("memory"), &buffer), (3, b"axc"));
    assert_eq!(fs::read(&path).expect("a file"), b"abc");
}

#[test]
fn a_member_that_is_not_in_its_cluster_is_refused() {
    let dir = tempfile::tempdir().expect("directory");
    let error = check(&config(dir.path(), "--name=a --initial-cluster=b=http://127.0.0.1:1"));
    let error = error.expect_err("another name").to_string();
    assert_eq!(error, "couldn't find local name \"a\" in the initial cluster configuration");
}
