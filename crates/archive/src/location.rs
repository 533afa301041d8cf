//! Where an archive is: `file:///directory`, a path, or `s3://bucket/prefix`.
//!
//! For S3, the usual variables of the environment name the credentials, the region and the address of a store that is
//! not Amazon's: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT`, and
//! `AWS_ALLOW_HTTP` for one without TLS.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, RetryConfig};

use crate::error::ArchiveError;

/// Permission bits of a directory: what it holds is for its owner alone.
const DIRECTORY_MODE: u32 = 0o700;

/// Attempts of a request of a store that cannot be reached or is overloaded.
const MAX_RETRIES: usize = 3;

/// Time after which such a request has failed; the writer tries again later.
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// Where an archive is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A directory.
    Directory(PathBuf),
    /// A bucket, and what names of objects begin with.
    Bucket { bucket: String, prefix: String },
}

impl Location {
    /// Reads an address.
    ///
    /// # Errors
    /// It has another form.
    pub(crate) fn parse(url: &str) -> Result<Location, ArchiveError> {
        let wrong = |why: &str| {
            ArchiveError::Wrong(format!(
                "the archive {url:?} {why}: name a directory (file:///DIRECTORY) or a bucket (s3://BUCKET/PREFIX)"
            ))
        };
        if let Some(rest) = url.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_matches('/').to_owned();
            return match bucket {
                "" => Err(wrong("names no bucket")),
                _ => Ok(Location::Bucket { bucket: bucket.to_owned(), prefix }),
            };
        }
        match url.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => Ok(Location::Directory(PathBuf::from(path))),
            Some(_) => Err(wrong("has no absolute path")),
            None if url.is_empty() || url.contains("://") => Err(wrong("has another form")),
            None => Ok(Location::Directory(PathBuf::from(url))),
        }
    }

    /// Opens it. A directory that does not exist is created if `creates`, else it is an error.
    ///
    /// # Errors
    /// The directory cannot be opened; the store's settings are wrong.
    pub(crate) fn open(&self, creates: bool) -> Result<Arc<dyn ObjectStore>, ArchiveError> {
        match self {
            Location::Directory(path) => {
                let failed = |error: &dyn std::fmt::Display| {
                    ArchiveError::Wrong(format!("cannot open the directory {}: {error}", path.display()))
                };
                if creates {
                    let mut builder = std::fs::DirBuilder::new();
                    let created = builder.recursive(true).mode(DIRECTORY_MODE).create(path);
                    created.map_err(|error| failed(&error))?;
                }
                let whole = std::fs::canonicalize(path).map_err(|error| failed(&error))?;
                if !whole.is_dir() {
                    return Err(failed(&"it is a file; an archive must be a directory"));
                }
                let store = LocalFileSystem::new_with_prefix(whole).map_err(|error| failed(&error))?;
                Ok(Arc::new(store.with_fsync(true)))
            }
            Location::Bucket { bucket, prefix } => {
                // The library asks for the process's provider of TLS. That one was installed before is as good.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let retry = RetryConfig {
                    max_retries: MAX_RETRIES,
                    retry_timeout: RETRY_TIMEOUT,
                    ..RetryConfig::default()
                };
                let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
                let store = builder.build().map_err(ArchiveError::store("open", bucket))?;
                Ok(Arc::new(PrefixStore::new(store, prefix.as_str())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let directory = |path: &str| Location::Directory(PathBuf::from(path));
        let bucket = |bucket: &str, prefix: &str| Location::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        for (url, expected) in [
            ("file:///var/backup", directory("/var/backup")),
            ("backup", directory("backup")),
            ("s3://b", bucket("b", "")),
            ("s3://b/one/two/", bucket("b", "one/two")),
        ] {
            assert_eq!(Location::parse(url).expect(url), expected);
        }
        for (url, why) in [
            ("", "another form"),
            ("file://backup", "no absolute path"),
            ("s3:///x", "no bucket"),
            ("gs://b/x", "another form"),
        ] {
            let error = Location::parse(url).expect_err(url).to_string();
            assert!(error.contains(why) && error.contains("s3://BUCKET"), "{error}");
        }
    }
}
