//! Licences and sources of the dependencies, read from `cargo metadata`.
//!
//! cargo-deny checks the same and advisories besides, but takes longer to build than the gate takes to run,
//! so the gate checks these two itself and `cargo xtask ci --long` runs cargo-deny where it is installed. The
//! licences that are allowed, and why, are those of `deny.toml`: one list for both.

use std::collections::BTreeSet;
use std::fs;

use spdx::{Expression, ParseMode};

use crate::command::Outcome;
use crate::metadata::{self, Package};

const DENY_FILE: &str = "deny.toml";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every package that Cargo.lock names for our platform.
pub(crate) fn run() -> Outcome {
    let text = fs::read_to_string(DENY_FILE).map_err(|error| format!("cannot read {DENY_FILE}: {error}"))?;
    let allowed = allowed_licences(&text)?;
    let packages = metadata::read()?.packages;
    let wrong: Vec<String> = packages.iter().filter_map(|package| check(package, &allowed).err()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The quoted words between `allow = [` and `]` in the section `[licenses]`.
fn allowed_licences(text: &str) -> Result<BTreeSet<String>, String> {
    let list = text
        .split_once("[licenses]")
        .and_then(|(_, section)| section.split_once("allow = ["))
        .and_then(|(_, list)| list.split_once(']'))
        .map(|(list, _)| list)
        .ok_or_else(|| format!("{DENY_FILE} has no `allow = [...]` under [licenses]"))?;
    Ok(list.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect())
}

fn check(package: &Package, allowed: &BTreeSet<String>) -> Outcome {
    let named = format!("{} {}", package.name, package.version);
    if let Some(source) = package.source.as_deref().filter(|source| *source != CRATES_IO) {
        return Err(format!("{named} comes from {source}: only crates.io is allowed"));
    }
    let text = package.license.as_deref().ok_or_else(|| format!("{named} declares no licence"))?;
    let licence = Expression::parse_mode(text, ParseMode::LAX)
        .map_err(|error| format!("{named}: cannot read its licence {text:?}: {}", error.reason))?;
    let fits = licence.evaluate(|requirement| allowed.contains(&requirement.to_string()));
    if fits { Ok(()) } else { Err(format!("{named}: its licence {text:?} is not allowed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: &str) -> Package {
        let text = format!(
            r#"{{"id": "x", "name": "x", "version": "1.0.0", "license": "{license}", "source": null,
                "dependencies": [], "targets": [], "manifest_path": "x"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn one_allowed_alternative_is_enough_and_every_part_is_needed() {
        let deny =
            "[licenses]\nallow = [\n    \"MIT\", # plain\n    \"Apache-2.0 WITH LLVM-exception\",\n]\n";
        let allowed = allowed_licences(deny).unwrap();
        assert_eq!(allowed.len(), 2);
        assert_eq!(check(&package("MIT OR GPL-3.0"), &allowed), Ok(()));
        assert_eq!(check(&package("MIT/GPL-3.0"), &allowed), Ok(()));
        assert_eq!(check(&package("Apache-2.0 WITH LLVM-exception"), &allowed), Ok(()));
        assert!(check(&package("MIT AND GPL-3.0"), &allowed).is_err());
        assert!(check(&package("GPL-3.0"), &allowed).is_err());
        assert!(check(&package("what ever"), &allowed).is_err());
    }

    #[test]
    fn only_crates_io_is_a_source() {
        let mut package = package("MIT");
        package.source = Some("git+https://example.org/x".to_owned());
        let error = check(&package, &BTreeSet::from(["MIT".to_owned()])).unwrap_err();
        assert!(error.contains("only crates.io"), "{error}");
    }
}
