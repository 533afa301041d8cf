//! Links between the documents: each names a file that exists, and a heading when it names one.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::tidy::file::{File, Finding};

/// Checks the links of every Markdown file; addresses of the network are left alone. `other_paths` are the files that
/// are no text.
pub(super) fn check(files: &[File], other_paths: &[String]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| file.is_document());
    documents.flat_map(|file| check_file(file, files, other_paths)).collect()
}

fn check_file(file: &File, files: &[File], other_paths: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
        if dest_url.contains("://") || dest_url.starts_with("mailto:") {
            continue;
        }
        let line = file.text[..range.start].matches('\n').count() + 1;
        if let Err(what) = resolve(file, &dest_url, files, other_paths) {
            findings.push(Finding::new(file, line, format!("link \"{dest_url}\": {what}")));
        }
    }
    findings
}

fn resolve(file: &File, link: &str, files: &[File], other_paths: &[String]) -> Result<(), &'static str> {
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let target = if path.is_empty() { PathBuf::from(&file.path) } else { beside(&file.path, path) };
    let known = |found: &&File| Path::new(&found.path) == target;
    let is_folder = || files.iter().any(|found| Path::new(&found.path).starts_with(&target));
    match (files.iter().find(known), heading) {
        (Some(found), Some(heading)) if found.is_document() => {
            headings(&found.text).contains(heading).then_some(()).ok_or("the document has no such heading")
        }
        (Some(_), _) => Ok(()),
        (None, None) if is_folder() || other_paths.iter().any(|path| Path::new(path) == target) => Ok(()),
        (None, _) => Err("there is no such file in the repository"),
    }
}

/// `link`, seen from the folder of `path`, without `.` and `..`.
fn beside(path: &str, link: &str) -> PathBuf {
    let mut target = Path::new(path).parent().map(Path::to_path_buf).unwrap_or_default();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(part) => target.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    target
}

/// The anchors that the usual renderers make of the headings: lower case, punctuation dropped, blanks as
/// hyphens.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|text| anchor(&text))),
            Event::Text(part) | Event::Code(part) => {
                if let Some(text) = heading.as_mut() {
                    text.push_str(&part);
                }
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
