//! The compiler: for which machine it builds, where it is, and which LLVM it holds; and the flags that it gets.

use std::path::PathBuf;
use std::process::Command;

use crate::command;

/// What separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// The compiler that cargo uses.
#[derive(Debug, PartialEq)]
pub(super) struct Toolchain {
    /// The machine on which it runs, for which it builds: `x86_64-unknown-linux-gnu`.
    pub(super) host: String,
    /// The major version of its LLVM.
    pub(super) llvm: u32,
    /// Its folder.
    pub(super) sysroot: PathBuf,
}

impl Toolchain {
    /// Asks the compiler.
    ///
    /// # Errors
    /// It cannot be run, or says nothing of LLVM.
    pub(super) fn read() -> Result<Self, String> {
        let rustc = || Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let version = command::output(rustc().arg("-vV"))?;
        let sysroot = command::output(rustc().args(["--print", "sysroot"]))?;
        Self::of(&version, sysroot.trim())
    }

    fn of(version: &str, sysroot: &str) -> Result<Self, String> {
        let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let missing = |name: &str| format!("`rustc -vV` does not tell its {name}:\n{version}");
        let host = field("host:").ok_or_else(|| missing("host"))?.to_owned();
        let llvm = field("LLVM version:").and_then(major).ok_or_else(|| missing("LLVM version"))?;
        Ok(Self { host, llvm, sysroot: sysroot.into() })
    }
}

/// The first number of a version.
pub(super) fn major(version: &str) -> Option<u32> {
    version.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// The flags that the caller's environment has for the compiler, and one more, for `CARGO_ENCODED_RUSTFLAGS`: of the two
/// variables that hold flags, cargo reads only this one if it is there.
pub(super) fn joined_flags(given: impl Fn(&str) -> Option<String>, more: &str) -> String {
    let encoded = given("CARGO_ENCODED_RUSTFLAGS");
    let plain =
        || given("RUSTFLAGS").map(|flags| flags.split_whitespace().collect::<Vec<_>>().join(SEPARATOR));
    let before = encoded.or_else(plain).filter(|flags| !flags.is_empty());
    before.into_iter().chain([more.to_owned()]).collect::<Vec<_>>().join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_llvm_are_found_in_what_rustc_says() {
        let said = "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nLLVM version: 22.1.2\n";
        let toolchain = Toolchain::of(said, "/s").unwrap();
        assert_eq!((toolchain.host.as_str(), toolchain.llvm), ("x86_64-unknown-linux-gnu", 22));
        let error = Toolchain::of("host: x\nbackend: cranelift", "/s").unwrap_err();
        assert!(error.starts_with("`rustc -vV` does not tell its LLVM version"), "{error}");
    }

    #[test]
    fn flags_of_the_packager_are_kept_and_may_hold_blanks() {
        let flags = |encoded: Option<&str>, plain: Option<&str>| {
            let given = |name: &str| if name == "RUSTFLAGS" { plain } else { encoded }.map(str::to_owned);
            joined_flags(given, "-Cprofile-use=/a b").split(SEPARATOR).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(flags(None, None), ["-Cprofile-use=/a b"]);
        assert_eq!(flags(None, Some(" -Ca  -Cb ")), ["-Ca", "-Cb", "-Cprofile-use=/a b"]);
        assert_eq!(flags(Some("-Cc d"), Some("-Ca")), ["-Cc d", "-Cprofile-use=/a b"]);
        assert_eq!(flags(Some(""), None), ["-Cprofile-use=/a b"]);
    }
}
