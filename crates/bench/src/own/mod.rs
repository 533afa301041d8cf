//! Commands that `benchmark` does not have.

mod kubernetes;
mod mixed;
mod objects;
mod suite;

use std::path::Path;

pub(crate) use kubernetes::{checked_kinds, run as kubernetes};
pub(crate) use mixed::run as mixed;
pub(crate) use suite::{check as check_suite, run as suite};

use crate::cli::own::ReportOptions;
use crate::report::{file, html};

/// Where the page is written when the line does not say.
const PAGE: &str = "report.html";

/// Makes a page of one or two results.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn report(options: &ReportOptions, page: Option<&Path>) -> Result<(), String> {
    let mut results = Vec::new();
    for path in &options.results {
        let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name = if options.results.len() == 1 { String::new() } else { name };
        results.push((name, file::read(path)?));
    }
    let page = page.unwrap_or(Path::new(PAGE));
    file::write(page, &html::render(&results)?)?;
    crate::print::say(&format!("{}\n", page.display()));
    Ok(())
}
