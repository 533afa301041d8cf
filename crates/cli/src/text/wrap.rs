//! Pages on a terminal: lines are broken between words, and go on below the text that they belong to.

/// Columns that a text needs beside what it explains; with fewer it goes on below the beginning of its line.
const MIN_TEXT_COLUMNS: usize = 24;

/// Breaks lines that are longer than `columns`; without a number, nothing changes. A word that is longer than a line
/// stays whole.
///
/// ```text
///   -w, --write-out string   set the output format (fields, json,
///                            protobuf, simple, table)
/// ```
pub fn page(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let mut wrapped = String::with_capacity(text.len());
    // Where the texts of the lines before begin, if they stand below each other.
    let mut column = None;
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let letters: Vec<char> = line.chars().collect();
        column = text_column(&letters, column);
        let indent = column.filter(|column| column + MIN_TEXT_COLUMNS <= columns);
        let indent = indent.unwrap_or_else(|| leading_spaces(&letters));
        break_line(&letters, indent, columns, &mut wrapped);
        wrapped.push_str(end);
    }
    wrapped
}

fn leading_spaces(line: &[char]) -> usize {
    line.iter().take_while(|letter| **letter == ' ').count()
}

/// Where the text begins that explains what stands at the beginning of a line: behind two spaces, or where that of the
/// line before begins.
fn text_column(line: &[char], before: Option<usize>) -> Option<usize> {
    let begin = leading_spaces(line);
    if begin == line.len() {
        return None;
    }
    let space = (begin..line.len()).find(|at| line[*at..].starts_with(&[' ', ' ']));
    let behind = space.map(|at| at + leading_spaces(&line[at..]));
    let below = before.filter(|column| {
        let begins_there = line.get(*column).is_some_and(|letter| *letter != ' ');
        begin > 0 && begin < *column && begins_there && line[column - 1] == ' '
    });
    below.or(behind)
}

fn break_line(mut line: &[char], indent: usize, columns: usize, wrapped: &mut String) {
    let mut begin = indent;
    let mut room = columns;
    while line.len() > room {
        let fits = (begin + 1..=room).rev().find(|at| line[*at] == ' ');
        let longer = || (room..line.len()).find(|at| line[*at] == ' ');
        let Some(end) = fits.or_else(longer) else { break };
        wrapped.extend(&line[..end]);
        line = &line[end..];
        line = &line[leading_spaces(line)..];
        if line.is_empty() {
            return;
        }
        wrapped.push('\n');
        wrapped.extend(std::iter::repeat_n(' ', indent));
        (begin, room) = (0, columns.saturating_sub(indent).max(1));
    }
    wrapped.extend(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Usage:\n  \
        tool restore <archive> --data-dir {output dir} [options]\n\n\
        Flags:\n      \
        --timeout duration   time to wait to obtain a lock, 0 to block indefinitely\n  \
        -h, --help               help\n\n\
        Commands\n  \
        lease       Lease related commands. Use `tool lease --help`\n  \
        move-leader Transfers leadership to another member of the cluster.\n";

    #[test]
    fn lines_go_on_below_their_texts() {
        let expected = "Usage:\n  \
            tool restore <archive> --data-dir {output dir}\n  \
            [options]\n\n\
            Flags:\n      \
            --timeout duration   time to wait to obtain a\n                           \
            lock, 0 to block\n                           \
            indefinitely\n  \
            -h, --help               help\n\n\
            Commands\n  \
            lease       Lease related commands. Use `tool\n              \
            lease --help`\n  \
            move-leader Transfers leadership to another member\n              \
            of the cluster.\n";
        assert_eq!(page(PAGE, Some(52)), expected);
        assert_eq!(page(PAGE, Some(200)), PAGE);
        assert_eq!(page(PAGE, None), PAGE, "scripts read it as it is");
    }

    #[test]
    fn narrow_windows_and_long_words_lose_nothing() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for columns in 1..120 {
            let wrapped = page(PAGE, Some(columns));
            assert_eq!(words(&wrapped), words(PAGE), "{columns}");
            let is_long = |line: &&str| line.chars().count() > columns && line.trim().contains(' ');
            let long = wrapped.lines().find(is_long);
            assert!(columns < 40 || long.is_none(), "{columns}: {long:?}");
        }
        assert_eq!(page("one-word-that-is-long and more", Some(9)), "one-word-that-is-long\nand more");
    }
}
