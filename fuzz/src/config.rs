//! Flags, variables and a configuration file in which every byte may be anything.
//!
//! They give a configuration or an error that says something. What is taken for a duration, a URL or a number comes out
//! of the same parsers wherever it stands.
//!
//! The script is a sequence of texts: each an argument, a variable, or the file.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use server::config::{Url, parse};

use crate::input::script::Script;

/// What a text is, as scripts number it.
pub const ARGUMENT: u8 = 0;
/// A variable, its name before the first `=`.
pub const VARIABLE: u8 = 1;
/// All of a configuration file.
pub const FILE: u8 = 2;

/// Reads a script.
///
/// # Panics
/// When what is above does not hold.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut args = vec![OsString::from("stele"), OsString::from("server")];
    let mut variables = Vec::new();
    let mut file = None;
    while let (Some(sort), Some(text)) = (script.byte(), script.bytes()) {
        let text = String::from_utf8_lossy(text).into_owned();
        // Other files are not ours to read: some have no end.
        if sort != FILE && (text.contains("config-file") || text.contains("CONFIG_FILE")) {
            continue;
        }
        check_url(&text);
        match sort {
            ARGUMENT => args.push(text.into()),
            VARIABLE => {
                variables.extend(text.split_once('=').map(|(name, value)| (name.into(), value.into())))
            }
            FILE => file = Some(text),
            _ => {}
        }
    }
    let path = file.map(write);
    args.extend(path.iter().map(|path| format!("--config-file={}", path.display()).into()));
    if let Err(error) = parse(args.into_iter(), variables.into_iter()) {
        assert!(!error.to_string().is_empty() && error.exit_code > 0);
    }
}

/// A URL reads the same when it is written again, and its parts are parts of it.
fn check_url(text: &str) {
    let Ok(url) = Url::parse(text) else { return };
    assert_eq!(Url::parse(url.as_str()).as_ref(), Ok(&url));
    assert!(url.as_str().ends_with(url.address()) && url.address().contains(url.host()));
    assert_eq!(url.port().is_none(), url.scheme().is_unix());
}

fn write(text: String) -> PathBuf {
    let path = std::env::temp_dir().join(format!("stele-fuzz-{}.yaml", std::process::id()));
    fs::write(&path, text).expect("the temporary folder takes a file");
    path
}
