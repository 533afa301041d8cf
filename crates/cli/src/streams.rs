//! Where a command reads and prints: the streams of the process, or those of a test.

use std::io::{BufRead, IsTerminal, Write};

/// Where a command reads and prints.
pub struct Streams {
    /// Standard input.
    pub input: Box<dyn BufRead + Send>,
    /// Standard output.
    pub out: Box<dyn Write>,
    /// Standard error.
    pub errors: Box<dyn Write>,
    /// Columns of the terminal that standard output is, if it is one.
    pub out_columns: Option<usize>,
    /// Whether standard error is a terminal.
    pub errors_on_terminal: bool,
}

impl Streams {
    /// Those of this process.
    pub fn standard() -> Self {
        let columns =
            rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
        Self {
            input: Box::new(std::io::BufReader::new(std::io::stdin())),
            out: Box::new(std::io::stdout()),
            errors: Box::new(std::io::stderr()),
            out_columns: columns.filter(|columns| *columns > 0),
            errors_on_terminal: std::io::stderr().is_terminal(),
        }
    }

    /// A page for standard output: as it is for scripts, its lines as wide as the terminal for people.
    pub fn page(&self, text: &str) -> String {
        crate::text::wrap::page(text, self.out_columns)
    }

    /// The same for standard error. A terminal that has both has one width.
    pub fn error_page(&self, text: &str) -> String {
        crate::text::wrap::page(text, self.out_columns.filter(|_| self.errors_on_terminal))
    }
}
