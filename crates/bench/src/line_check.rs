//! What a line asks for and its command cannot do: refused before anything is dialled, instead of ignored.

use std::path::Path;

use crate::cli::{Line, Task};
use crate::command::check_key_space;
use crate::own::{check_suite, checked_kinds};

/// Checks values that depend on each other, or that `benchmark` refuses with exit code 1.
///
/// # Errors
/// One line: what is wrong.
pub(crate) fn check(line: &Line) -> Result<(), String> {
    let (rate, key_space) = match &line.task {
        Task::Put(options) => (options.rate, Some(options.key_space_size)),
        Task::Range(options) => (options.rate, None),
        Task::TxnPut(options) => (options.rate, Some(options.key_space_size)),
        Task::TxnMixed(options) => (options.rate, Some(options.key_space_size)),
        Task::Stm(options) => (options.rate, None),
        Task::Mixed(options) => (options.rate, None),
        Task::Watch(options) => (0, Some(options.key_space_size)),
        _ => (0, None),
    };
    if line.own.open_loop && rate == 0 {
        return Err("--open-loop needs a --rate: without one no request is due at a time".to_owned());
    }
    if let Some(size) = key_space {
        check_key_space(size)?;
    }
    [&line.own.json, &line.own.html].into_iter().flatten().try_for_each(|path| check_output(path))?;
    match &line.task {
        Task::Kubernetes(options) => checked_kinds(options).map(|_| ()),
        Task::Suite(options) => check_suite(options),
        Task::Range(options) if !(1..=2).contains(&options.keys.len()) => {
            Err(format!("range takes a key, or a key and the end of the range; got {}", options.keys.len()))
        }
        Task::Mixed(options) if options.key_space_size == 0 => {
            Err("expected positive --key-space-size, got (0)".to_owned())
        }
        _ => Ok(()),
    }
}

/// Refuses a file that could not be written when the run has ended.
fn check_output(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match path {
        path if path.is_dir() => Err(format!("cannot write {}: it is a directory", path.display())),
        path if !folder.is_dir() => {
            Err(format!("cannot write {}: {} is no directory", path.display(), folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{NoRun, read};

    fn read_line(line: &str) -> Result<Line, NoRun> {
        read(true, line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_without_effect_are_refused() {
        for line in [
            "watch --duration=1s",
            "--warm-up=1s watch-get",
            "watch-latency --open-loop",
            "suite --clients=5",
            "--conns=1 suite",
            "kubernetes --warm-up=1s",
            "report a.json --json=b",
        ] {
            let Err(NoRun::Wrong(text)) = read_line(line) else { panic!("{line} is taken") };
            assert!(text.contains("has no effect on"), "{line}: {text}");
        }
        for line in
            ["suite --duration=1s --json=x", "kubernetes --duration=1s --clients=5", "watch --clients=2"]
        {
            assert!(read_line(line).is_ok(), "{line}");
        }
    }

    /// What `cargo xtask pgo` trains with: an access and a line each.
    const TRAINING: &str = include_str!("../../../xtask/src/pgo/training.txt");

    #[test]
    fn the_lines_of_the_training_are_lines() {
        let lines = TRAINING.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.filter_map(|line| line.split_once(' ')).map(|(_, line)| line).collect();
        assert!(!lines.is_empty());
        for line in lines {
            let read = read_line(line).unwrap_or_else(|error| panic!("{line}: {error:?}"));
            check(&read).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn values_are_checked_before_anything_is_dialled() {
        let wrong = |line: &str| check(&read_line(line).expect(line)).expect_err(line);
        for line in [
            "put --open-loop",
            "lease-keepalive --open-loop",
            "mixed --open-loop",
            "stm --open-loop --rate=0",
        ] {
            assert!(wrong(line).contains("--open-loop needs a --rate"), "{line}");
        }
        for line in ["put --key-space-size=0", "watch --key-space-size=-1", "mixed --key-space-size=0"] {
            assert!(wrong(line).starts_with("expected positive --key-space-size"), "{line}");
        }
        for line in ["kubernetes --scale=0", "kubernetes --renew-interval=0s", "suite --scale=-1"] {
            assert!(wrong(line).starts_with("expected positive --scale"), "{line}");
        }
        assert!(wrong("kubernetes --resources=2").starts_with("expected --resources of 3 or more"));
        for line in ["put --json=/no/such/x", "mixed --html=/no/such/x", "suite --html=/"] {
            assert!(wrong(line).starts_with("cannot write /"), "{line}");
        }
        assert!(check(&read_line("put --json=x --html=./x").expect("a line")).is_ok());
        assert!(wrong("range").starts_with("range takes a key") && wrong("range a b c").ends_with("got 3"));
        assert!(check(&read_line("put --open-loop --rate=5").expect("a line")).is_ok());
    }
}
