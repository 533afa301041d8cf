//! Rules over the documents: what they refer to exists, and what they repeat is as its source says it.

mod limits;
mod links;
mod paths;
mod rfcs;
mod tests_named;

use super::file::{File, Finding};

/// Checks every document. `other_paths` are the files that are no text.
pub(super) fn check(files: &[File], other_paths: &[String]) -> Vec<Finding> {
    let mut findings = links::check(files, other_paths);
    findings.extend(paths::check(files, other_paths));
    findings.extend(tests_named::check(files));
    findings.extend(limits::check(files));
    findings.extend(rfcs::check(files));
    findings
}
