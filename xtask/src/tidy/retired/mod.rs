//! Retired words: each was replaced by a term of docs/glossary.md, and must not come back.
//!
//! A word is searched in the names of code, files included, and in prose: comments, string literals and documents.
//! Names within prose are those in backticks. A name of four words or more is a sentence (tests have such names):
//! words with an ordinary meaning of their own are allowed there, as they are in prose.

mod parts;
mod words;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::file::{File, Finding};
use parts::{Kind, Language, Part};
use words::{RETIRED, Retired, Scope};

/// Records of what was decided or published under the old words, and the table of the words itself.
const EXEMPT: &[&str] = &["docs/rfcs/", "CHANGELOG.md", "xtask/src/tidy/retired/"];

/// Names of more words are sentences.
const MAX_NAME_WORDS: usize = 3;

/// The entries by word, and the phrases of more than one.
static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let all = || RETIRED.iter().flat_map(|entry| entry.words.iter().map(move |word| (*word, entry)));
    let is_word = |word: &str| word.chars().all(char::is_alphanumeric);
    Index {
        words: all().filter(|(word, _)| is_word(word)).collect(),
        phrases: all().filter(|(word, _)| !is_word(word)).collect(),
    }
});

struct Index {
    words: BTreeMap<&'static str, &'static Retired>,
    phrases: Vec<(&'static str, &'static Retired)>,
}

/// Checks a file.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let language = match file {
        file if file.is_rust() => Language::Rust,
        file if file.is_go() => Language::Go,
        file if file.is_document() => Language::Markdown,
        _ => return Vec::new(),
    };
    if EXEMPT.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let stem = file.name().split('.').next().unwrap_or_default();
    findings.extend(in_name(stem).map(|(word, entry)| finding(file, 1, word, entry)));
    for part in parts::of(&file.text, language) {
        findings
            .extend(in_part(&part).into_iter().map(|(word, entry)| finding(file, part.line, &word, entry)));
    }
    findings
}

fn finding(file: &File, line: usize, word: &str, entry: &Retired) -> Finding {
    Finding::new(file, line, format!("retired word \"{word}\": {}", entry.instead))
}

fn in_part(part: &Part<'_>) -> Vec<(String, &'static Retired)> {
    match part.kind {
        Kind::Code => in_names(part.text),
        Kind::Prose => {
            let mut found = in_prose(part.text);
            // What stands between two backticks is every second part.
            let named = part.text.split('`').skip(1).step_by(2).flat_map(in_names);
            found.extend(named.filter(|(_, entry)| entry.scope != Scope::Prose));
            found.sort_by_key(|(_, entry)| entry.instead);
            found.dedup_by_key(|(_, entry)| entry.instead);
            found
        }
    }
}

fn in_names(text: &str) -> Vec<(String, &'static Retired)> {
    names(text).filter_map(in_name).map(|(word, entry)| (word.to_owned(), entry)).collect()
}

/// The identifiers in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// The first retired word of an identifier.
fn in_name(name: &str) -> Option<(&str, &'static Retired)> {
    let words = words_of(name);
    let is_short = words.len() <= MAX_NAME_WORDS;
    words.iter().enumerate().find_map(|(index, word)| {
        let lower = word.to_lowercase();
        let applies = |scope: Scope| match scope {
            Scope::Everywhere => true,
            // "in place" and "in turn" are ordinary in any name.
            Scope::Names => is_short && !(index > 0 && words[index - 1].eq_ignore_ascii_case("in")),
            Scope::Types => {
                is_short && name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
            }
            Scope::Prose => false,
        };
        let entry = INDEX.words.get(lower.as_str()).filter(|entry| applies(entry.scope))?;
        Some((*word, *entry))
    })
}

/// The words of `snake_case`, `CamelCase` or `UPPER_CASE`.
fn words_of(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut begin = 0;
        let mut before_is_lower = false;
        for (index, c) in part.char_indices() {
            if c.is_uppercase() && before_is_lower {
                words.push(&part[begin..index]);
                begin = index;
            }
            before_is_lower = !c.is_uppercase();
        }
        words.push(&part[begin..]);
    }
    words
}

/// The retired words and phrases of a line of prose.
fn in_prose(text: &str) -> Vec<(String, &'static Retired)> {
    let text = text.to_lowercase();
    let applies = |entry: &Retired| [Scope::Everywhere, Scope::Prose].contains(&entry.scope);
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter_map(|word| INDEX.words.get_key_value(word)).map(|(word, entry)| (*word, *entry));
    let phrases = INDEX.phrases.iter().copied().filter(|(phrase, _)| has_phrase(&text, phrase));
    let found = words.chain(phrases).filter(|(_, entry)| applies(entry));
    found.map(|(word, entry)| (word.to_owned(), entry)).collect()
}

/// Whether `phrase` stands in `text` between word boundaries.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric();
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !before.ends_with(joins) && !after.starts_with(joins)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let word = |finding: Finding| {
            let word = finding.what.split('"').nth(1).unwrap_or_default().to_owned();
            format!("{}: {word}", finding.line)
        };
        check(&file).into_iter().map(word).collect()
    }

    #[test]
    fn a_retired_name_is_found_in_code_in_documents_and_in_paths() {
        let rust =
            "struct WatchInbox;\nfn bell(&self) {}\nlet era = 1;\nconst HEIR_ID: u8 = 1;\nstruct Met;\n";
        assert_eq!(
            found("crates/log/src/a.rs", rust),
            ["1: Inbox", "2: bell", "3: era", "4: HEIR", "5: Met"]
        );
        assert_eq!(
            found("docs/a.md", "The `Mailbox`.\n\nA `place` and a place.\n"),
            ["1: mailbox", "3: place"]
        );
        assert_eq!(found("tests/go/a/a.go", "func (m *Mailbox) turn() {}\n"), ["1: Mailbox", "1: turn"]);
        assert_eq!(found("crates/log/src/upkeep.rs", ""), ["1: upkeep"]);
    }

    #[test]
    fn prose_is_what_people_read() {
        let rust = "// The deciding thread.\nlog(\"whoever mends it\");\n/* amid\nanew */ fn f() {}\n";
        let all = ["1: deciding thread", "2: whoever", "2: mends", "3: amid", "4: anew"];
        let mut sorted = found("crates/log/src/a.rs", rust);
        sorted.sort();
        let mut expected = all.map(str::to_owned);
        expected.sort();
        assert_eq!(sorted, expected);
    }

    #[test]
    fn ordinary_meanings_are_left_alone() {
        let rust = "// In turn, each piece takes the place of a gap; it brings a healthy list.\n\
                    fn update_in_place() {}\nfn two_readers_take_turns_at_it() {}\nfn replace(health: Health) {}\n\
                    let metadata = (hand, method, earlier);\n";
        assert_eq!(found("crates/log/src/a.rs", rust), Vec::<String>::new());
    }

    #[test]
    fn records_of_decisions_keep_their_words() {
        for path in ["docs/rfcs/0011-volunteers.md", "CHANGELOG.md", "Cargo.toml", "crates/a/x.proto"] {
            assert_eq!(found(path, "the volunteer's mailbox\n"), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn words_of_names_are_told_apart() {
        assert_eq!(words_of("MAX_FRAME_BYTES"), ["MAX", "FRAME", "BYTES"]);
        assert_eq!(words_of("readIndexRound"), ["read", "Index", "Round"]);
        assert_eq!(words_of("_in_place2"), ["in", "place2"]);
    }
}
