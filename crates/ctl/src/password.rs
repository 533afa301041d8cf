//! Asks for passwords, without showing what is typed.

use std::io::{BufRead, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use cli::Streams;

/// Prints a prompt and reads a line; on a terminal, what is typed is not shown.
///
/// # Errors
///
/// There is no line.
pub fn ask(streams: &mut Streams, prompt: &str) -> Result<String, String> {
    show(streams, prompt)?;
    let stdin = std::io::stdin();
    let shown = tcgetattr(&stdin).ok();
    if let Some(shown) = &shown {
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // Where echo cannot be switched off, the password is shown; etcdctl's does the same.
        let _ = tcsetattr(&stdin, OptionalActions::Now, &hidden);
    }
    let line = read_line(streams.input.as_mut());
    if let Some(shown) = &shown {
        let _ = tcsetattr(&stdin, OptionalActions::Now, shown);
    }
    show(streams, "\n")?;
    line
}

fn show(streams: &mut Streams, text: &str) -> Result<(), String> {
    let shown = streams.out.write_all(text.as_bytes()).and_then(|()| streams.out.flush());
    shown.map_err(|error| format!("the prompt could not be printed: {error}"))
}

fn read_line(input: &mut dyn BufRead) -> Result<String, String> {
    let mut line = String::new();
    match input.read_line(&mut line) {
        Ok(0) => Err("EOF".to_owned()),
        Ok(_) => Ok(line.trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// One word of standard input, for commands whose password comes from a script.
pub(crate) fn scan(streams: &mut Streams) -> String {
    read_line(streams.input.as_mut())
        .unwrap_or_default()
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}
