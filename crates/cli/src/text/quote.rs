//! Quoted strings as Go writes them: `%q`, which transactions and interactive watches read too, and JSON.

use std::fmt::Write;

/// Bytes as Go's `%q`: in quotes, with escapes for what does not print and for bytes that are not UTF-8.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = "\"".to_owned();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            push_letter(&mut text, letter);
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}

fn push_letter(text: &mut String, letter: char) {
    match letter {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\x07' => text.push_str("\\a"),
        '\x08' => text.push_str("\\b"),
        '\x0c' => text.push_str("\\f"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        '\x0b' => text.push_str("\\v"),
        letter if prints(letter) => text.push(letter),
        letter => {
            let number = u32::from(letter);
            let _ = match number {
                0..0x80 => write!(text, "\\x{number:02x}"),
                0x80..0x1_0000 => write!(text, "\\u{number:04x}"),
                _ => write!(text, "\\U{number:08x}"),
            };
        }
    }
}

/// Whether a letter prints: Rust escapes the same letters for the same reason, apart from marks that combine with the
/// letter before, which print, and quotes.
fn prints(letter: char) -> bool {
    match letter {
        '\'' => true,
        '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{fe0f}' => letter != '\u{200d}',
        letter => letter.escape_debug().count() == 1,
    }
}

/// Reads one quoted string at the beginning of a line, and returns what follows it. Backquotes hold text without
/// escapes.
pub fn unquote(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (quote, mut rest) = line.split_first()?;
    if *quote == b'`' {
        let end = rest.iter().position(|byte| *byte == b'`')?;
        return Some((rest[..end].to_vec(), &rest[end + 1..]));
    }
    if *quote != b'"' {
        return None;
    }
    let mut bytes = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        rest = after;
        match first {
            b'"' => return Some((bytes, rest)),
            b'\n' => return None,
            b'\\' => rest = unescape(rest, &mut bytes)?,
            byte => bytes.push(*byte),
        }
    }
}

/// Reads what follows a backslash.
fn unescape<'a>(rest: &'a [u8], bytes: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (kind, rest) = rest.split_first()?;
    let simple = match kind {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'"' => *kind,
        b'x' => {
            bytes.push(u8::try_from(number(rest, 2, 16)?).ok()?);
            return Some(&rest[2..]);
        }
        b'u' | b'U' => {
            let digits = if *kind == b'u' { 4 } else { 8 };
            let letter = char::from_u32(number(rest, digits, 16)?)?;
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(&rest[digits..]);
        }
        digit @ b'0'..=b'7' => {
            let low = number(rest, 2, 8)?;
            bytes.push(u8::try_from(u32::from(digit - b'0') * 64 + low).ok()?);
            return Some(&rest[2..]);
        }
        _ => return None,
    };
    bytes.push(simple);
    Some(rest)
}

fn number(bytes: &[u8], digits: usize, base: u32) -> Option<u32> {
    let text = std::str::from_utf8(bytes.get(..digits)?).ok()?;
    text.chars().all(|digit| digit.is_digit(base)).then(|| u32::from_str_radix(text, base).ok())?
}

/// A text as a string of JSON, with the escapes that Go uses: also for `<`, `>` and `&`, which could end a script in
/// a web page.
pub fn json_quoted(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\x00'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// Splits a line into words as etcdctl does in transactions and interactive watches: spaces separate, quotes keep
/// together, and only double quotes have escapes.
///
/// # Errors
///
/// A word in double quotes whose escapes are wrong.
pub fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.first() {
        match first {
            byte if byte.is_ascii_whitespace() => rest = &rest[1..],
            b'"' => {
                let Some(end) = closing_quote(rest) else {
                    rest = &rest[1..];
                    continue;
                };
                let (word, _) = unquote(&rest[..=end]).ok_or("invalid syntax")?;
                words.push(word);
                rest = &rest[end + 1..];
            }
            b'\'' => match rest[1..].iter().position(|byte| *byte == b'\'') {
                Some(end) => {
                    words.push(rest[1..=end].to_vec());
                    rest = &rest[end + 2..];
                }
                None => rest = &rest[1..],
            },
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                // A quote that ends a word does not belong to it, unless it is the word's second letter or inside.
                words.push(rest[..end].to_vec());
                rest = &rest[end..];
            }
        }
    }
    Ok(words)
}

/// Where the string that begins here ends.
fn closing_quote(line: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < line.len() {
        match line[at] {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
    None
}
