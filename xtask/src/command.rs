//! Running other programs: where they run, and errors that name the command to repeat by hand.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What every task returns: nothing, or what was wrong and what to do.
pub(crate) type Outcome = Result<(), String>;

/// Makes the root of the repository the current directory, so that every task may name files from there.
pub(crate) fn enter_root() -> Outcome {
    std::env::set_current_dir(root()).map_err(|error| format!("cannot enter the repository: {error}"))
}

/// The checkout that holds the current directory, else the one that this program was built from.
fn root() -> PathBuf {
    let top = output(Command::new("git").args(["rev-parse", "--show-toplevel"]));
    let current = top.ok().map(|path| PathBuf::from(path.trim()));
    let built_from = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf);
    let is_ours = |path: &PathBuf| path.join("xtask/Cargo.toml").is_file();
    current.filter(is_ours).or_else(built_from).unwrap_or_default()
}

/// The cargo that runs this task.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs `command` with its output passed on.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = describe(command);
    let status = command.status().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed ({status})")) }
}

/// Runs `command` and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = describe(command);
    let output = command.output().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{line}` failed ({}): {}", output.status, reason.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{line}` wrote something that is not UTF-8"))
}

/// Whether `program` answers `--version`.
pub(crate) fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Whether Go is there.
pub(crate) fn is_go_installed() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}

/// Whether Go is there. On a machine without it, what needs it is left out, with a line that says so.
///
/// # Errors
/// In a CI run, which must leave nothing out.
pub(crate) fn has_go(what: &str) -> Result<bool, String> {
    let found = is_go_installed();
    if !found && std::env::var_os("CI").is_some() {
        return Err(format!("{what}: needs Go 1.26 or newer, which is not installed"));
    }
    if !found {
        println!("SKIPPED: {what}: needs Go 1.26 or newer, which is not installed");
    }
    Ok(found)
}

/// The command as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args()).map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}
