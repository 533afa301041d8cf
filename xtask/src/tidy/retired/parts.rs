//! Splits a source into code and prose, line by line.

/// What a file is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Go,
    /// All of it is prose.
    Markdown,
}

/// Whether a part is read by a compiler or by people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Code,
    /// Comments and the text of string literals.
    Prose,
}

/// A part of one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// The parts of a text, in order.
pub(super) fn of(text: &str, language: Language) -> Vec<Part<'_>> {
    if language == Language::Markdown {
        let mut parts = Vec::new();
        add(&mut parts, Kind::Prose, 1, text);
        return parts;
    }
    let mut parts = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while !rest.is_empty() {
        let code_len = next_prose(rest, language);
        let (code, after) = rest.split_at(code_len);
        let (prose, after) = after.split_at(prose_len(after, language));
        add(&mut parts, Kind::Code, line, code);
        line += newlines(code);
        add(&mut parts, Kind::Prose, line, prose);
        line += newlines(prose);
        rest = after;
    }
    parts
}

fn add<'a>(parts: &mut Vec<Part<'a>>, kind: Kind, first_line: usize, text: &'a str) {
    let lines = text.split('\n').enumerate().filter(|(_, text)| !text.trim().is_empty());
    parts.extend(lines.map(|(index, text)| Part { kind, line: first_line + index, text }));
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// How many bytes of code come before the next comment or string.
fn next_prose(text: &str, language: Language) -> usize {
    let mut before = ' ';
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let rest = &text[at..];
        let is_prose = match c {
            '/' => rest.starts_with("//") || rest.starts_with("/*"),
            '"' => true,
            '`' => language == Language::Go,
            'r' | 'b' => language == Language::Rust && !is_word(before) && raw_hashes(rest).is_some(),
            _ => false,
        };
        if is_prose {
            return at;
        }
        if c == '\'' {
            // A character, which may be a quotation mark; a lifetime has no end.
            let literal = &rest[..character_len(rest)];
            for _ in literal.chars().skip(1) {
                chars.next();
            }
        }
        before = c;
    }
    text.len()
}

/// How long the comment or string is with which `text` begins.
fn prose_len(text: &str, language: Language) -> usize {
    let up_to =
        |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        text.find('\n').unwrap_or(text.len())
    } else if text.starts_with("/*") {
        up_to("*/", 2)
    } else if text.starts_with('`') {
        up_to("`", 1)
    } else if let Some((prefix, hashes)) = raw_hashes(text).filter(|_| language == Language::Rust) {
        up_to(&format!("\"{}", "#".repeat(hashes)), prefix)
    } else if text.starts_with('"') {
        let mut escaped = false;
        let end = text.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        end.map_or(text.len(), |(at, _)| at + 1)
    } else {
        text.len()
    }
}

/// For a raw string, the length of `r#"` and how many `#` it has.
fn raw_hashes(text: &str) -> Option<(usize, usize)> {
    let marked = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = marked.len() - marked.trim_start_matches('#').len();
    let is_string = marked[hashes..].starts_with('"');
    is_string.then(|| (text.len() - marked.len() + hashes + 1, hashes))
}

/// How many bytes a character literal has; 1 for a lifetime.
fn character_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let escaped = chars.next().is_some_and(|(_, c)| c == '\\');
    if escaped {
        chars.next();
        return chars.find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prose(text: &str, language: Language) -> Vec<(usize, &str)> {
        let parts = of(text, language).into_iter().filter(|part| part.kind == Kind::Prose);
        parts.map(|part| (part.line, part.text)).collect()
    }

    #[test]
    fn comments_and_strings_are_prose_and_the_rest_is_code() {
        let rust = "a // b\n\"c \\\" d\" e '\"' f r#\"g \" h\"# i /* j\nk */ l 'm b'\\'' n \"o\"";
        let expected =
            [(1, "// b"), (2, "\"c \\\" d\""), (2, "r#\"g \" h\"#"), (2, "/* j"), (3, "k */"), (3, "\"o\"")];
        assert_eq!(prose(rust, Language::Rust), expected);
        let code: String = of(rust, Language::Rust)
            .into_iter()
            .filter(|part| part.kind == Kind::Code)
            .map(|part| part.text)
            .collect();
        assert_eq!(code, "a  e '\"' f  i  l 'm b'\\'' n ");
    }

    #[test]
    fn go_has_strings_in_backticks_and_documents_are_all_prose() {
        assert_eq!(prose("a `b\nc` d", Language::Go), [(1, "`b"), (2, "c`")]);
        assert_eq!(prose("a \"b\n\nc", Language::Markdown), [(1, "a \"b"), (3, "c")]);
    }

    #[test]
    fn an_end_that_is_missing_ends_with_the_text() {
        for text in ["\"a", "/* a", "r#\"a\"", "// a", "'"] {
            let parts = of(text, Language::Rust);
            assert_eq!(parts.iter().map(|part| part.text.len()).sum::<usize>(), text.len());
        }
    }
}
