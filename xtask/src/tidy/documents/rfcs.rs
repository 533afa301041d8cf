//! The list of RFCs: it names all of them, and what it says of their status is what they say themselves.
//!
//! An RFC states its relations to others between its title and its first heading: `Narrowed by [RFC 0012](…): …`. Each
//! relation has two ends, and the list repeats those that a reader must know before using a decision:
//! `…; narrowed by 0012 and 0024`. Numbers without a file are listed too, as `| 0030 | not used |`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::file::{File, Finding};

const FOLDER: &str = "docs/rfcs";

const LIST: &str = "docs/rfcs/README.md";

/// What a later RFC does to an earlier one: as the earlier and as the later says it.
const RELATIONS: [(&str, &str); 3] =
    [("replaced by", "replaces"), ("narrowed by", "narrows"), ("continued in", "continues")];

/// An RFC, as its file describes it.
struct Rfc<'a> {
    file: &'a File,
    /// For each relation by its word, the numbers of the others.
    relations: BTreeSet<(&'static str, u32)>,
}

/// Checks the list and the files in its folder.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(list) = files.iter().find(|file| file.path == LIST) else { return Vec::new() };
    let rfcs: BTreeMap<u32, Rfc<'_>> =
        files.iter().filter_map(|file| Some((number(file)?, Rfc { file, relations: head(file) }))).collect();
    let mut findings = both_ends(&rfcs);
    findings.extend(listed(list, &rfcs));
    findings
}

/// The number of an RFC, by its file name.
fn number(file: &File) -> Option<u32> {
    let numbered = file.folder() == FOLDER && file.is_document();
    file.name().split_once('-').filter(|_| numbered)?.0.parse().ok()
}

fn both_ends(rfcs: &BTreeMap<u32, Rfc<'_>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, rfc) in rfcs {
        for (word, other) in &rfc.relations {
            let answer = opposite(word);
            let answered = rfcs.get(other).is_some_and(|rfc| rfc.relations.contains(&(answer, *number)));
            if !answered {
                let what = format!("{word} {other:04}, whose head has no \"{answer} [RFC {number:04}]\"");
                findings.push(Finding::new(rfc.file, 1, what));
            }
        }
    }
    findings
}

/// Compares the rows of the list with the files.
fn listed(list: &File, rfcs: &BTreeMap<u32, Rfc<'_>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut expected = 1;
    for (index, line) in list.text.lines().enumerate() {
        let Some(row) = line.strip_prefix("| ").map(|row| row.trim_start_matches('[')) else { continue };
        let Some(number) = row.get(..4).and_then(|digits| digits.parse::<u32>().ok()) else { continue };
        let mut find = |what: String| findings.push(Finding::new(list, index + 1, what));
        if number != expected {
            find(format!("{expected:04} is missing before this line, if only as \"not used\""));
        }
        expected = number + 1;
        let said: BTreeSet<(&str, u32)> =
            RELATIONS.iter().flat_map(|(word, _)| numbers_after(row, word)).collect();
        let Some(rfc) = rfcs.get(&number) else {
            if !row.ends_with("| not used |") {
                find(format!("{number:04} has no file: say \"not used\""));
            }
            continue;
        };
        let is_earlier = |word: &str| RELATIONS.iter().any(|(earlier, _)| *earlier == word);
        let stated: BTreeSet<(&str, u32)> =
            rfc.relations.iter().copied().filter(|(word, _)| is_earlier(word)).collect();
        for (word, other) in stated.symmetric_difference(&said) {
            find(format!(
                "{number:04} is \"{word} {other:04}\" in its file or in this list, but not in both"
            ));
        }
    }
    if let Some((number, _)) = rfcs.range(expected..).next() {
        findings.push(Finding::new(list, 1, format!("{number:04} is not listed")));
    }
    findings
}

/// The relations in the head of an RFC.
fn head(file: &File) -> BTreeSet<(&'static str, u32)> {
    let head = file.text.split("\n## ").next().unwrap_or_default().to_lowercase();
    let words = RELATIONS.iter().flat_map(|(earlier, later)| [*earlier, *later]);
    words.flat_map(|word| numbers_after(&head, word)).collect()
}

fn opposite(word: &str) -> &'static str {
    let pairs = RELATIONS.iter().flat_map(|(earlier, later)| [(*earlier, *later), (*later, *earlier)]);
    pairs.into_iter().find(|(one, _)| *one == word).map_or("", |(_, other)| other)
}

/// The numbers that follow `word` in a text: `word 0001, 0002 and 0003`, or `word [rfc 0001](…)`.
fn numbers_after(text: &str, word: &'static str) -> Vec<(&'static str, u32)> {
    let mut found = Vec::new();
    for part in text.split(word).skip(1) {
        let tokens = part.trim_start_matches([' ', '\n']).trim_start_matches("[rfc ");
        let tokens = tokens.split([' ', ',', ']', '\n']).filter(|token| !["", "and"].contains(token));
        let numbers = tokens.map_while(|token| token.parse::<u32>().ok().filter(|_| token.len() == 4));
        found.extend(numbers.map(|number| (word, number)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "| [0001](0001-a.md) | a; narrowed by 0002 and 0003, and more |\n| [0002](0002-b.md) | b |\n\
                        | [0003](0003-c.md) | c |\n| 0004 | not used |\n| [0005](0005-e.md) | e |\n";

    fn found(heads: [&str; 4], rows: &str) -> Vec<String> {
        let file = |path: &str, text: String| File { path: format!("docs/rfcs/{path}"), text };
        let names = ["0001-a.md", "0002-b.md", "0003-c.md", "0005-e.md"];
        let mut files: Vec<File> = names
            .iter()
            .zip(heads)
            .map(|(name, head)| {
                file(name, format!("# T\n\n{head}\n\n## Summary\n\nIt replaces [RFC 0009](x).\n"))
            })
            .collect();
        files.push(file("README.md", rows.to_owned()));
        let position =
            |finding: &Finding| format!("{}:{}", &finding.path["docs/rfcs/".len()..], finding.line);
        check(&files).into_iter().map(|finding| format!("{} {}", position(&finding), finding.what)).collect()
    }

    const HEADS: [&str; 4] = [
        "Narrowed by [RFC 0002](x): why. Narrowed by\n[RFC 0003](x).",
        "Narrows [RFC 0001](x), by this.",
        "Narrows [RFC 0001](x).",
        "",
    ];

    #[test]
    fn a_list_that_agrees_with_the_files_has_no_findings() {
        assert_eq!(found(HEADS, ROWS), Vec::<String>::new());
    }

    #[test]
    fn a_relation_has_two_ends() {
        let one_end = [HEADS[0], "", HEADS[2], ""];
        let what = "0001-a.md:1 narrowed by 0002, whose head has no \"narrows [RFC 0001]\"";
        assert_eq!(found(one_end, ROWS), [what]);
        let other_end = [HEADS[0], HEADS[1], HEADS[2], "Replaces [RFC 0002](x)."];
        let what = "0005-e.md:1 replaces 0002, whose head has no \"replaced by [RFC 0005]\"";
        assert_eq!(found(other_end, ROWS), [what]);
    }

    #[test]
    fn the_list_repeats_what_the_files_say() {
        let less = ROWS.replace("0002 and 0003", "0002");
        let what = "README.md:1 0001 is \"narrowed by 0003\" in its file or in this list, but not in both";
        assert_eq!(found(HEADS, &less), [what]);
        let other = ROWS.replace("| e |", "| e; replaced by 0001 |");
        let what = "README.md:5 0005 is \"replaced by 0001\" in its file or in this list, but not in both";
        assert_eq!(found(HEADS, &other), [what]);
    }

    #[test]
    fn no_number_is_left_out() {
        let without = ROWS.replace("| 0004 | not used |\n", "");
        let what = "README.md:4 0004 is missing before this line, if only as \"not used\"";
        assert_eq!(found(HEADS, &without), [what]);
        let gone = ROWS.replace("not used", "used");
        assert_eq!(found(HEADS, &gone), ["README.md:4 0004 has no file: say \"not used\""]);
        let end = &ROWS[..ROWS.find("| [0005]").unwrap()];
        assert_eq!(found(HEADS, end), ["README.md:1 0005 is not listed"]);
    }
}
