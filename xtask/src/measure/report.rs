//! What the reports of both tasks share: numbers, tables, files.

use std::fs;
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::command::Outcome;

/// Three digits that count, and no exponents.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A table for a terminal. The first `names` columns are words, all others are numbers and stand to the right.
pub(crate) fn table(header: Vec<String>, lines: Vec<Vec<String>>, names: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table.add_rows(lines);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Writes the raw figures of a run.
pub(crate) fn write_json(path: &Path, run: &impl Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(run).map_err(|error| format!("cannot write JSON: {error}"))?;
    write(path, &text)
}

/// Writes a report.
pub(crate) fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Says that a run is valid, or fails with the reasons why it is not.
pub(crate) fn verdict(doubts: &[String]) -> Outcome {
    if doubts.is_empty() {
        println!("a valid run");
        return Ok(());
    }
    Err(format!("this run is not valid:\n{}", doubts.join("\n")))
}

/// Which of the rows with these names were asked for, by name or by the beginning of one; all when none is asked for.
/// The numbers ascend.
///
/// # Errors
/// A name that is the beginning of none; `task` is named in the message.
pub(crate) fn chosen(asked: &[String], names: &[&str], task: &str) -> Result<Vec<usize>, String> {
    let is_exact = |asked: &String| names.contains(&asked.as_str());
    let fits =
        |name: &str, asked: &String| name == asked || (!is_exact(asked) && name.starts_with(asked.as_str()));
    if let Some(unknown) = asked.iter().find(|asked| !names.iter().any(|name| fits(name, asked))) {
        return Err(format!("no row begins with {unknown:?}: see `cargo xtask {task}`"));
    }
    let is_chosen = |name: &str| asked.is_empty() || asked.iter().any(|asked| fits(name, asked));
    Ok((0..names.len()).filter(|number| is_chosen(names[*number])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown = [123_456.7, 12.34, 1.234, 0.012].map(number);
        assert_eq!(shown, ["123457", "12.3", "1.23", "0.012"]);
    }

    #[test]
    fn rows_are_chosen_by_name_or_by_beginning() {
        let chosen = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            chosen(&asked, &["put-1", "put-10", "get"], "compare --rows list")
        };
        assert_eq!(chosen(&[]), Ok(vec![0, 1, 2]));
        assert_eq!(chosen(&["put"]), Ok(vec![0, 1]));
        assert_eq!(chosen(&["get", "put-1"]), Ok(vec![0, 2]), "a whole name is no beginning");
        assert!(chosen(&["put", "list"]).is_err_and(|error| error.contains("\"list\"")));
    }
}
