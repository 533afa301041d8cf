//! The command lines of etcd's programs as data, and what follows from them: parsing, help, suggestions, completion;
//! and texts as Go prints them.
//!
//! etcdctl and etcdutl are built with the libraries cobra and pflag, and scripts depend on how those read a line:
//! flags may stand anywhere (`get key --prefix`), a unique beginning of a command is enough (`mem list`), `-w json`,
//! `-wjson`, `--write-out json` and `--write-out=json` are equal, and `--` ends the flags. So are the texts of their
//! errors and help pages. This crate has the same behaviour, for the table of commands of any [`Program`]:
//!
//! | module | does |
//! |---|---|
//! | `table` | what a program, a command and a flag are |
//! | `find` | which command a line means |
//! | `parse` | the values of its flags, and what is left: its arguments |
//! | `values` | checks a value of a flag |
//! | `help` | the pages |
//! | `complete` | what could come next, for shells |
//! | `scripts` | the scripts by which shells ask that |
//! | `streams` | where a command reads and prints |
//! | `progress` | how long tasks get on, on a terminal |
//! | `text` | texts as Go prints them |
//!
//! Arguments are bytes, because keys and values are. It must not know what a command does.

pub mod complete;
pub mod find;
pub mod help;
pub mod parse;
mod progress;
pub mod scripts;
mod streams;
mod table;
pub mod text;
pub mod values;

pub use progress::BarKind;
pub use streams::Streams;
pub use table::{
    Arg, BLANK, Command, Flag, Group, Kind, PageLayout, Program, int, switch, switch_on, text as text_flag,
};

/// Exit codes of etcd's programs.
pub mod code {
    /// The request failed.
    pub const ERROR: u8 = 1;
    /// No connection could be made, or a lease could not be read.
    pub const BAD_CONNECTION: u8 = 2;
    /// What was read from standard input is wrong.
    pub const INVALID_INPUT: u8 = 3;
    /// A flag has a value that is not supported.
    pub const BAD_FEATURE: u8 = 4;
    /// A stream was cut.
    pub const INTERRUPTED: u8 = 5;
    /// The arguments are wrong.
    pub const BAD_ARGS: u8 = 128;
}
