//! `migrate`: the storage version of a data directory.
//!
//! | directory | what it does |
//! |---|---|
//! | etcd's, to a later version | sets the version: nothing else differs between 3.5, 3.6 and 3.7 |
//! | etcd's, to an earlier one | with `--force` alone: newer entries of the log are not looked for |
//! | Stele's, also a restored one | nothing: its formats have versions of their own, which a member reads |

use std::path::PathBuf;

use dbfile::records::SmallRecords;

use super::data_dir::{self, DirectoryOwner};
use super::rewrite::{StorageVersion, rewrite};
use crate::database::file::LockedFile;
use crate::line::{CommandEnd, CommandLine, Refusal};

/// The oldest storage version, and the newest: major and minor number.
const OLDEST: (u64, u64) = (3, 5);
const NEWEST: (u64, u64) = (3, 7);

/// The first that is written into the database.
const FIRST_WRITTEN: (u64, u64) = (3, 6);

pub(crate) fn run(line: &mut CommandLine) -> CommandEnd {
    let target = target(line.values.text("target-version"))?;
    let data_dir = PathBuf::from(line.values.text("data-dir"));
    let path = match data_dir::owner(&data_dir)? {
        DirectoryOwner::Etcd(path) => path,
        DirectoryOwner::Stele => {
            check_known(target)?;
            line.complain("nothing to do: a data directory of Stele has no storage version of etcd");
            return Ok(());
        }
    };
    let file = LockedFile::open_alone(line, &path)?;
    let small = SmallRecords::read(&file.database()?).map_err(|error| file.refuse(&error))?;
    let current = current(&small)?;
    if current == target {
        line.complain(&format!("storage version up-to-date: {}.{}", target.0, target.1));
        return Ok(());
    }
    let forced = line.values.switch("force");
    let checked = check_known(target).and_then(|()| if target < current { Err(downgrade()) } else { Ok(()) });
    if let Err(refusal) = checked
        && !forced
    {
        return Err(refusal);
    }
    let version = format!("{}.{}.0", target.0, target.1);
    let change = match target < FIRST_WRITTEN {
        true => StorageVersion::Cleared,
        false => StorageVersion::Set(&version),
    };
    rewrite(line, &file, &change)?;
    line.complain(&format!("updated storage version: {}.{}", target.0, target.1));
    Ok(())
}

/// The version of `--target-version`.
fn target(text: &str) -> Result<(u64, u64), Refusal> {
    let parts: Vec<&str> = text.split('.').collect();
    let [major, minor] = parts.as_slice() else {
        return Err(Refusal::bad_args(format!(
            "wrong target version format, expected \"X.Y\", got {text:?}"
        )));
    };
    let number = |part: &str| {
        part.parse::<u64>().map_err(|_| {
            Refusal::bad_args(format!(
                "failed to parse target version: {text:?} has a part that is no number"
            ))
        })
    };
    let target = (number(major)?, number(minor)?);
    if target < OLDEST {
        return Err(Refusal::bad_args(format!("target version {text:?} not supported. Minimal \"3.5\"")));
    }
    Ok(target)
}

/// The version of a database: 3.5 did not write its own.
fn current(small: &SmallRecords) -> Result<(u64, u64), Refusal> {
    let Some(version) = &small.storage_version else {
        return match small.applied.term {
            0 => Err(Refusal::error("missing term information: the database is of etcd 3.4 or older")),
            _ => Ok(OLDEST),
        };
    };
    let mut parts = version.split('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(Refusal::error(format!("the database has the storage version {version:?}, which is none"))),
    }
}

fn check_known((major, minor): (u64, u64)) -> CommandEnd {
    if major == NEWEST.0 && minor <= NEWEST.1 {
        return Ok(());
    }
    let why = if major == NEWEST.0 {
        format!("version \"{major}.{minor}.0\" is not supported")
    } else {
        "changing major storage version is not supported".to_owned()
    };
    Err(Refusal::error(format!("cannot create migration plan: {why}")))
}

fn downgrade() -> Refusal {
    Refusal::error(
        "cannot downgrade storage: entries of the WAL may be newer than the target version, which is not checked here; \
         use etcd's own etcdutl, or --force",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_by_etcd() {
        assert_eq!(target("3.6").ok(), Some((3, 6)));
        for (wrong, why) in [("3", "wrong target"), ("3.x", "failed to parse"), ("3.4", "not supported")] {
            let refused = target(wrong).expect_err(wrong);
            assert!(refused.message.contains(why) && refused.code == cli::code::BAD_ARGS, "{refused:?}");
        }
        assert!(check_known((3, 8)).is_err() && check_known((4, 0)).is_err() && check_known((3, 7)).is_ok());
    }
}
