//! What a misspelt name may have meant.

use strsim::damerau_levenshtein;

use crate::config::table;

/// Names that are no flags of the table.
const OTHER_NAMES: [&str; 4] = ["check", "config-file", "help", "version"];

/// Longest name that is compared: that takes time by the square of the length.
const MAX_COMPARED_BYTES: usize = 64;

/// A hint for a name on the command line: empty, or ` (did you mean --name?)`.
pub(super) fn of_flag(name: &str) -> String {
    let names = table::flags().map(|flag| flag.name.to_owned()).chain(OTHER_NAMES.map(str::to_owned));
    hint(&name.to_ascii_lowercase().replace('_', "-"), names, "--")
}

/// A hint for an environment variable.
pub(super) fn of_variable(variable: &str) -> String {
    hint(variable, table::flags().map(|flag| flag.variable()), "")
}

/// A hint for a key of the configuration file.
pub(super) fn of_key(key: &str) -> String {
    let names = table::flags().map(|flag| flag.name.to_owned());
    hint(&key.replace('_', "-"), names, "")
}

/// Letters of a name in which one slip is likely: `proxy-read-timeout` is none of `raft-read-timeout`.
const LETTERS_PER_SLIP: usize = 6;

/// The nearest of `names`, if slips of the keyboard may have made it what was written.
fn hint(written: &str, names: impl Iterator<Item = String>, before: &str) -> String {
    let near = names
        .filter(|_| written.len() <= MAX_COMPARED_BYTES)
        .map(|name| (damerau_levenshtein(written, &name), name))
        .filter(|(distance, name)| *distance <= (name.len() / LETTERS_PER_SLIP).max(1))
        .min();
    near.map_or_else(String::new, |(_, name)| format!(" (did you mean {before}{name}?)"))
}

#[cfg(test)]
mod tests {
    //! Slips, and words that are no slips.
    use super::*;

    #[test]
    fn a_slip_is_noticed_and_another_word_is_not() {
        assert_eq!(of_flag("data_dir"), " (did you mean --data-dir?)");
        assert_eq!(of_flag("nmae"), " (did you mean --name?)");
        assert_eq!(of_flag("listen-client-url"), " (did you mean --listen-client-urls?)");
        assert_eq!(of_flag("chekc"), " (did you mean --check?)");
        assert_eq!(of_variable("ETCD_DATADIR"), " (did you mean ETCD_DATA_DIR?)");
        assert_eq!(of_key("quota-backend-byte"), " (did you mean quota-backend-bytes?)");
        for other in ["nonsense", "", "x", &"x".repeat(100_000)] {
            assert_eq!((of_flag(other), of_variable(other), of_key(other)), Default::default(), "{other}");
        }
    }
}
