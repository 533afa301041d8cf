//! A warning about a directory of data that others than its owner could use. Directories that are made here get the
//! right mode from the log's disk; nothing here changes a mode, for its owner may have a reason.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The mode that directories of data are made with.
const PRIVATE_MODE: u32 = 0o700;

/// Logs what etcd does if a directory is there with another mode.
pub(crate) fn warn_unless_private(dir: &Path) {
    if let Some(error) = problem(dir) {
        tracing::warn!(%error, "check file permission");
    }
}

/// What is wrong with a directory. One that is not there yet will be made; other errors end the start when it is used.
fn problem(dir: &Path) -> Option<String> {
    let metadata = dir.metadata().ok().filter(std::fs::Metadata::is_dir)?;
    let mode = metadata.permissions().mode() & 0o777;
    let problem = || {
        format!(
            "directory \"{}\" exist, but the permission is \"d{}\". The recommended permission is \"-{}\" to prevent \
             possible unprivileged access to the data",
            dir.display(),
            letters(mode),
            letters(PRIVATE_MODE),
        )
    };
    (mode != PRIVATE_MODE).then(problem)
}

/// A mode as `ls` writes it.
fn letters(mode: u32) -> String {
    let letter = |(bit, letter)| if mode & (1_u32 << bit) == 0 { '-' } else { letter };
    (0_u32..9).rev().zip("rwxrwxrwx".chars()).map(letter).collect()
}

#[cfg(test)]
mod tests {
    //! Which directories are warned of.
    use std::fs::{Permissions, set_permissions};

    use super::*;

    #[test]
    fn every_mode_but_that_of_a_private_directory_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        for (mode, named) in [
            (0o700, None),
            (0o755, Some("drwxr-xr-x")),
            (0o770, Some("drwxrwx---")),
            (0o500, Some("dr-x------")),
        ] {
            set_permissions(dir.path(), Permissions::from_mode(mode)).expect("its mode is set");
            let found = problem(dir.path());
            assert_eq!(found.is_some(), named.is_some(), "{mode:o}: {found:?}");
            if let (Some(found), Some(named)) = (found, named) {
                assert!(found.contains(named) && found.contains("\"-rwx------\""), "{found}");
            }
        }
        assert_eq!(problem(&dir.path().join("none")), None);
    }
}
