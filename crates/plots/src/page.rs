//! A page: headings, tables with ratios, plots.

/// Ratios nearer to 1 than this say nothing.
const EVEN: f64 = 0.05;

const STYLE: &str = "\
:root{color-scheme:light;--line:#d8dde3;--soft:#5b6670;--good:#116b2f;--bad:#a11621}\
*{box-sizing:border-box}\
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1500px;padding:1.2rem;color:#1c2329}\
h1{font-size:1.6rem;margin:.2em 0}h2{font-size:1.15rem;margin:1.8em 0 .5em;border-top:1px solid var(--line);\
padding-top:1em}p{margin:.25em 0;color:var(--soft);overflow-wrap:anywhere}.doubt{color:var(--bad)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5em 0}\
th,td{padding:3px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\
th{font-weight:600;text-align:right;color:var(--soft)}td:first-child,th:first-child{text-align:left;padding-left:0}\
tbody tr:hover{background:#f4f6f8}small{color:var(--soft)}\
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}.even{color:var(--soft)}\
@media(max-width:640px){body{padding:.7rem}th,td{padding:3px 7px}td:first-child,th:first-child{white-space:normal}}\
.plots{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr))}\
.plots svg{width:100%;height:auto;max-width:700px;border:1px solid var(--line);border-radius:6px}";

/// A page under construction.
pub struct Page {
    text: String,
    is_row_open: bool,
}

impl Page {
    /// A page with a title.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        Self { text, is_row_open: false }
    }

    /// A line of text.
    pub fn paragraph(&mut self, text: &str) {
        self.text += &format!("<p>{}</p>\n", escape(text));
    }

    /// A line of text that says why the page is not to be trusted.
    pub fn doubt(&mut self, text: &str) {
        self.text += &format!("<p class=\"doubt\">{}</p>\n", escape(text));
    }

    /// A heading of a part.
    pub fn heading(&mut self, text: &str) {
        self.text += &format!("<h2>{}</h2>\n", escape(text));
    }

    /// Begins a table; each row is made of as many cells as the header.
    pub fn table_header(&mut self, titles: &[String]) {
        let cells: String = titles.iter().map(|title| format!("<th>{}</th>", escape(title))).collect();
        self.text += &format!("<div class=\"wide\"><table><thead><tr>{cells}</tr></thead>\n<tbody>\n");
    }

    /// The next cell.
    pub fn cell(&mut self, text: &str) {
        self.open_row();
        self.text += &format!("<td>{}</td>", escape(text));
    }

    /// The next cell, with something small behind it.
    pub fn cell_with(&mut self, text: &str, small: &str) {
        self.open_row();
        self.text += &format!("<td>{} <small>{}</small></td>", escape(text), escape(small));
    }

    /// A cell that says how the first of two values compares with the second; empty without both. Its colour says
    /// whether the first is better.
    pub fn ratio(&mut self, values: Option<(f64, f64)>, more_is_better: bool) {
        self.open_row();
        let Some(ratio) = values.filter(|(_, second)| *second != 0.0).map(|(first, second)| first / second)
        else {
            self.text += "<td></td>";
            return;
        };
        let class = match ratio {
            ratio if (ratio - 1.0).abs() < EVEN => "even",
            ratio if (ratio > 1.0) == more_is_better => "good",
            _ => "bad",
        };
        self.text += &format!("<td class=\"{class}\">× {}</td>", digits(ratio));
    }

    /// Ends a row.
    pub fn end_row(&mut self) {
        self.text += "</tr>\n";
        self.is_row_open = false;
    }

    /// Ends a table.
    pub fn end_table(&mut self) {
        self.text += "</tbody></table></div>\n";
    }

    /// Plots side by side, as [`crate::Chart::draw`] made them.
    pub fn plots(&mut self, plots: &[String]) {
        self.text += &format!("<div class=\"plots\">\n{}</div>\n", plots.concat());
    }

    /// The whole page.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text += "</body></html>\n";
        self.text
    }

    fn open_row(&mut self) {
        if !self.is_row_open {
            self.text += "<tr>";
            self.is_row_open = true;
        }
    }
}

/// Two or three digits that count.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_ratios_say_which_is_better() {
        let mut page = Page::new("a & b");
        page.table_header(&["<figure>".to_owned(), "ratio".to_owned()]);
        page.cell("rate");
        page.ratio(Some((30.0, 10.0)), true);
        page.end_row();
        page.cell("latency");
        page.ratio(Some((30.0, 10.0)), false);
        page.end_row();
        page.cell("even");
        page.ratio(Some((10.2, 10.0)), false);
        page.end_row();
        page.cell("none");
        page.ratio(Some((1.0, 0.0)), true);
        page.end_row();
        page.end_table();
        let text = page.finish();
        assert!(text.contains("<title>a &amp; b</title>") && text.contains("&lt;figure&gt;"));
        assert!(text.contains("<tr><td>rate</td><td class=\"good\">× 3.00</td></tr>"), "{text}");
        assert!(
            text.contains("<td class=\"bad\">× 3.00</td>") && text.contains("<td class=\"even\">× 1.02</td>")
        );
        assert!(text.contains("<tr><td>none</td><td></td></tr>"));
        assert!(text.ends_with("</body></html>\n"));
    }
}
