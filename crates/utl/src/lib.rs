//! The tool for files of members that do not run: snapshots, data directories, and the way from and to etcd.
//!
//! Called as `etcdutl`, it has exactly that program's commands, flags, outputs and exit codes (of release 3.7.3), so
//! scripts and runbooks keep working; what `snapshot restore` makes is a data directory of Stele. Called as `stele
//! utl`, it has more.
//!
//! | module | does |
//! |---|---|
//! | `commands` | the table of commands |
//! | `line` | what a command works with: its line, where it prints, how it fails |
//! | `database` | etcd's database file: `snapshot status`, `hashkv`, and reading it into a state |
//! | `directory` | data directories of Stele: `snapshot restore`, `export`, `inspect`, `verify`, `repair` |
//! | `archived` | archives of continuous backups: `restore`, `backup verify` |
//! | `part_file` | a file that gets its name when it is whole |
//! | `etcd` | data directories of etcd: `import`, `export --as-directory`, `defrag`, `migrate` |
//!
//! Nothing here speaks to a server. Whatever is read may be damaged or foreign: then one line says what was wrong, and
//! nothing that existed has changed. A directory or file that a running process has locked is refused.

mod archived;
mod commands;
mod database;
mod directory;
mod etcd;
mod line;
mod part_file;

use std::io::Write;

use cli::find::{Found, find, words};
use cli::{Streams, code, complete, help, parse, scripts};

use commands::{ETCDUTL, STELE_UTL};
use line::{CommandEnd, CommandLine, Refusal};

/// Runs one command line, and returns its exit code.
///
/// `own_name` is whether it was called as `stele utl` instead of `etcdutl`. `line` are the words after the program's
/// name.
pub fn run(own_name: bool, line: Vec<Vec<u8>>, streams: Streams) -> u8 {
    let program = if own_name { STELE_UTL } else { ETCDUTL };
    let mut line = CommandLine::new(program, line, streams);
    match line.carry_out() {
        Ok(()) => 0,
        Err(refusal) => {
            if !refusal.message.is_empty() {
                line.complain(&format!("Error: {}", refusal.message));
            }
            refusal.code
        }
    }
}

impl CommandLine {
    fn carry_out(&mut self) -> CommandEnd {
        let words_of_line = std::mem::take(&mut self.args);
        if let Some((first, rest)) = words_of_line.split_first()
            && (first == b"__complete" || first == b"__completeNoDesc")
        {
            return self.print(&complete::proposals(self.program, rest, first == b"__complete"));
        }
        let program = self.program;
        let found = find(program, &words_of_line).map_err(|message| {
            self.complain(&format!("Error: {message}\nRun '{} --help' for usage.", program.name));
            Refusal::new(code::ERROR, message)
        })?;
        let parsed = match parse::parse(program, &found.path, &found.rest) {
            Ok(parsed) => parsed,
            Err(message) => return Err(self.wrong_usage(&found, &message)),
        };
        if parsed.help || !found.command().runs() {
            return self.print_page(&help::page(program, &found.path));
        }
        (self.values, self.args) = (parsed.values, parsed.args);
        self.check_required(&found)?;
        match words(&found.path).as_str() {
            "help" => self.show_help(),
            "completion" => self.show_script(&found),
            "version" => self.show_version(),
            "snapshot status" => database::status::run(self),
            "hashkv" => self.exact_args(&found, 1).and_then(|()| database::hashkv::run(self)),
            "snapshot restore" => directory::restore::run(self),
            "restore" => archived::restore::run(self),
            "backup verify" => archived::verify::run(self),
            "defrag" => etcd::defrag::run(self),
            "migrate" => etcd::migrate::run(self),
            "import" => etcd::import::run(self),
            "export" if self.values.switch("as-directory") => etcd::export::run(self),
            "export" => directory::export::run(self),
            "inspect" => directory::inspect::run(self),
            "verify" => directory::verify::run(self),
            "repair" => directory::repair::run(self),
            other => Err(Refusal::new(code::ERROR, format!("the command {other} has no implementation"))),
        }
    }

    /// Says what is wrong with a line and how it should be; cobra and etcdutl both print the message.
    fn wrong_usage(&mut self, found: &Found, message: &str) -> Refusal {
        let usage = self.streams.error_page(&help::usage(self.program, &found.path));
        self.complain(&format!("Error: {message}\n{usage}"));
        Refusal::new(code::ERROR, message)
    }

    fn check_required(&mut self, found: &Found) -> CommandEnd {
        let required = commands::required_flags(&words(&found.path));
        let missing: Vec<String> = required
            .iter()
            .filter(|name| !self.values.on_line(name))
            .map(|name| format!("\"{name}\""))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.wrong_usage(found, &format!("required flag(s) {} not set", missing.join(", "))))
    }

    fn exact_args(&mut self, found: &Found, count: usize) -> CommandEnd {
        if self.args.len() == count {
            return Ok(());
        }
        let message = format!("accepts {count} arg(s), received {}", self.args.len());
        Err(self.wrong_usage(found, &message))
    }

    /// The page of the command that the arguments name.
    fn show_help(&mut self) -> CommandEnd {
        let program = self.program;
        match find(program, &self.args) {
            Ok(found) if found.rest.is_empty() || found.path.len() > 1 => {
                self.print_page(&help::page(program, &found.path))
            }
            _ => {
                let text = help::unknown_topic(program, &self.args);
                self.complain(self.streams.error_page(&text).trim_end_matches('\n'));
                Ok(())
            }
        }
    }

    /// The script that makes a shell complete our lines.
    fn show_script(&mut self, found: &Found) -> CommandEnd {
        self.exact_args(found, 1)?;
        let name = self.arg(0);
        match scripts::script(self.program, &name) {
            Some(script) => self.print(&script),
            None => {
                let message = format!("invalid argument {name:?} for \"{} completion\"", self.program.name);
                Err(self.wrong_usage(found, &message))
            }
        }
    }

    /// The version of etcdutl whose behaviour this is.
    fn show_version(&mut self) -> CommandEnd {
        let full = api::version::ETCD_VERSION;
        let short = full.rsplit_once('.').map_or(full, |(short, _)| short);
        self.print(&format!("etcdutl version: {full}\nAPI version: {short}\n"))
    }

    /// Prints a page for people.
    fn print_page(&mut self, page: &str) -> CommandEnd {
        let page = self.streams.page(page);
        self.print(&page)
    }

    /// Prints to standard output.
    fn print(&mut self, text: &str) -> CommandEnd {
        let out = &mut self.streams.out;
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // A reader that closed its end early (`| head`) is no failure.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Refusal::new(code::ERROR, error.to_string()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Lines and pages. `tests/go/utl` compares them with etcdutl itself, and restores, imports and exports real data.

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no writer panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().expect("no writer panics")).into_owned()
        }
    }

    /// Runs a line; returns its exit code, and what it printed to standard output and standard error.
    fn outcome(own_name: bool, line: &[&str]) -> (u8, String, String) {
        let (out, errors) = (Shared::default(), Shared::default());
        let streams = Streams {
            input: Box::new(std::io::empty()),
            out: Box::new(out.clone()),
            errors: Box::new(errors.clone()),
            out_columns: None,
            errors_on_terminal: false,
        };
        let line = line.iter().map(|word| word.as_bytes().to_vec()).collect();
        (run(own_name, line, streams), out.text(), errors.text())
    }

    #[test]
    fn our_own_commands_exist_under_our_own_name_alone() {
        let (code, page, _) = outcome(true, &[]);
        assert!(code == 0 && page.contains("stele utl [command]") && page.contains("\n  verify "), "{page}");
        let (code, page, _) = outcome(false, &["help"]);
        assert!(code == 0 && page.contains("etcdutl [command]") && !page.contains("verify"), "{page}");
        let (code, _, errors) = outcome(false, &["verify"]);
        assert!(code == 1 && errors.contains("unknown command \"verify\" for \"etcdutl\""), "{errors}");
    }

    #[test]
    fn bad_input_gets_one_line_and_an_exit_code() {
        let folder = tempfile::tempdir().expect("a directory");
        let foreign = folder.path().join("foreign");
        std::fs::write(&foreign, vec![7; 8192]).expect("it is written");
        let (foreign, empty) = (foreign.display().to_string(), folder.path().display().to_string());
        let lines: [(&[&str], u8, &str); 19] = [
            (&["snapshot", "status", "/no/such"], 1, "stat /no/such: no such file or directory"),
            (&["snapshot", "status", &foreign], 1, "not a database file of etcd"),
            (&["snapshot", "status", &foreign, "-w", "x"], 4, "unsupported output format"),
            (&["hashkv", &foreign], 1, "not a database file of etcd"),
            (&["snapshot", "restore", &foreign, "--name=x"], 1, "couldn't find local name \"x\""),
            (&["snapshot", "restore", &foreign, "--bump-revision=5"], 128, "--mark-compacted required"),
            (&["snapshot", "restore", &foreign, "--data-dir", &empty], 1, "not empty"),
            (&["verify", "--data-dir", &empty], 1, "holds no log of Stele: --data-dir names"),
            (&["verify", "--data-dir", &foreign], 1, "foreign is a file: --data-dir names"),
            (&["inspect", "--data-dir", "/no/such"], 1, "/no/such does not exist: --data-dir names"),
            (&["export", "/no/such/file", "--data-dir", &foreign], 1, "foreign is a file"),
            (
                &["export", "/no/such", "--data-dir", &foreign, "--name=a"],
                128,
                "--name is for --as-directory",
            ),
            (&["export", "/no/such", "--data-dir", &foreign, "--as-directory"], 1, "foreign is a file"),
            (
                &["export", "x", "--data-dir=y", "--as-directory", "--initial-cluster-token=t"],
                128,
                "give --initial-cluster too",
            ),
            (&["import", &empty, "--data-dir=y", "--initial-cluster=a=x"], 1, "no such file or directory"),
            (&["repair", "--data-dir", &foreign, "--backup-dir=/no/such"], 1, "foreign is a file"),
            (&["restore", &foreign, "--data-dir=/no/such"], 1, "foreign: it is a file; an archive"),
            (&["restore", "/no/such", "--data-dir=/no/such/new"], 1, "cannot open the directory /no/such"),
            (&["defrag", "--data-dir", &empty], 1, "no such file or directory"),
        ];
        for (line, expected, why) in lines {
            let (code, out, errors) = outcome(true, line);
            assert_eq!((code, out.as_str()), (expected, ""), "{line:?}: {errors}");
            assert!(errors.contains(why) && errors.lines().count() == 1, "{line:?}: {errors}");
        }
    }
}
