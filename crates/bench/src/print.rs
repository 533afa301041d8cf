//! The two streams of the process, and what may be written there.

use std::io::Write;

/// Prints on standard output.
pub(crate) fn say(text: &str) {
    // A reader that closed its end early (`| head`) is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints an error on standard error.
pub(crate) fn complain(text: &str) {
    // Where errors cannot be printed, that cannot be said either.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The line without a password: each word is shown without it before they are joined, since a password may hold spaces.
pub(crate) fn without_password<'a>(words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    let user = |value: &str| value.split(':').next().unwrap_or_default().to_owned();
    let mut hides = false;
    let shown = words.map(|word| {
        let is_user = std::mem::replace(&mut hides, word == "--user");
        match word.strip_prefix("--user=") {
            Some(value) => format!("--user={}", user(value)),
            None if is_user => user(&word),
            None => word.into_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_kept() {
        let shown = |words: &[&str]| without_password(words.iter().map(|word| (*word).into()));
        assert_eq!(shown(&["put", "--user=a:b", "--total=1"]), "put --user=a --total=1");
        assert_eq!(shown(&["put", "--user", "a:b:c", "x"]), "put --user a x");
        assert_eq!(shown(&["--user", "root:my secret", "put"]), "--user root put");
        assert_eq!(shown(&["--user=root: my secret", "put"]), "--user=root put");
    }
}
