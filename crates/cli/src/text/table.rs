//! Tables with lines around their cells, as etcdctl draws them.

/// Draws a table: the headings in capitals and in the middle, the cells to the right. Columns are as wide as their
/// longest text, and texts are counted in letters.
pub fn draw(headings: &[&str], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> =
        headings.iter().map(|heading| heading.replace('_', " ").to_uppercase()).collect();
    let width = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .chain([&headings[column]])
                .map(width)
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |left: &str, middle: &str, right: &str| {
        let parts: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", parts.join(middle))
    };
    let mut table = line("┌", "┬", "┐");
    for (heading, width) in headings.iter().zip(&widths) {
        table.push_str(&format!("│ {heading:^width$} "));
    }
    table.push_str("│\n");
    if !rows.is_empty() {
        table.push_str(&line("├", "┼", "┤"));
    }
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            table.push_str(&format!("│ {cell:>width$} "));
        }
        table.push_str("│\n");
    }
    table.push_str(&line("└", "┴", "┘"));
    table
}
