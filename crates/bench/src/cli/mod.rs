//! The command line: commands and options of etcd's `benchmark`, and more under Stele's own name.
//!
//! clap reads it. Where that reads a line otherwise than cobra does, or says otherwise what is wrong, this module makes
//! up for it: switches take `=true` and `=false`, times are written as Go writes them, and what is wrong is said in one
//! line. Called as `benchmark`, what that program does not have is refused as unknown.
//!
//! | file | holds |
//! |---|---|
//! | `effect.rs` | refuses what has no effect |
//! | `etcd.rs` | the commands of `benchmark` |
//! | `own.rs` | the commands and options that it does not have |
//! | `values.rs` | values: times, sizes |

mod effect;
pub(crate) mod etcd;
pub(crate) mod own;
pub(crate) mod values;

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use values::duration;

/// The exit code of a line that cannot be read: cobra's, -1.
pub(crate) const WRONG_LINE: u8 = 255;

/// A line.
#[derive(Debug, Parser)]
#[command(
    name = "benchmark",
    about = "A load generator for servers that speak etcd's v3 API",
    long_about = None,
    disable_version_flag = true,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    allow_negative_numbers = true,
    args_override_self = true
)]
pub(crate) struct Line {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(flatten)]
    pub(crate) own: own::RunOptions,
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// How servers are reached, and how the report looks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Reach {
    /// gRPC endpoints
    #[arg(long, global = true, value_delimiter = ',', default_value = "127.0.0.1:2379")]
    pub(crate) endpoints: Vec<String>,
    /// Total number of gRPC connections
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) conns: u32,
    /// Total number of gRPC clients
    #[arg(long, global = true, default_value_t = 1)]
    pub(crate) clients: u32,
    /// use full floating point precision
    #[arg(long, global = true)]
    pub(crate) precise: bool,
    /// sample requests for every second
    #[arg(long, global = true)]
    pub(crate) sample: bool,
    /// write a JSON report for perf-dash into the folder of the variable ARTIFACTS
    #[arg(long, global = true)]
    pub(crate) report_perfdash: bool,
    /// identify HTTPS client using this SSL certificate file
    #[arg(long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) cert: String,
    /// identify HTTPS client using this SSL key file
    #[arg(long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) key: String,
    /// verify certificates of HTTPS-enabled servers using this CA bundle
    #[arg(long, global = true, default_value = "", hide_default_value = true)]
    pub(crate) cacert: String,
    /// skip server certificate verification
    #[arg(long, global = true)]
    pub(crate) insecure_skip_tls_verify: bool,
    /// A name, and a password behind a colon; it is asked for if there is none.
    #[arg(
        long,
        global = true,
        default_value = "",
        hide_default_value = true,
        help = "provide username[:password] and prompt if password is not supplied"
    )]
    pub(crate) user: String,
    /// dial timeout for client connections
    #[arg(long, global = true, default_value = "0s", value_parser = duration)]
    pub(crate) dial_timeout: Duration,
    /// interval to update endpoints with the latest members (endpoints stay as given: accepted, without effect)
    #[arg(long, global = true, default_value = "0s", value_parser = duration)]
    pub(crate) auto_sync_interval: Duration,
    /// connect only to the leader
    #[arg(long, global = true)]
    pub(crate) target_leader: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Benchmark put
    Put(etcd::PutOptions),
    /// Benchmark range
    Range(etcd::RangeOptions),
    /// Benchmark txn-put
    TxnPut(etcd::TxnPutOptions),
    /// Benchmark a mixed load of txn-put & txn-range
    TxnMixed(etcd::TxnMixedOptions),
    /// Benchmark STM
    Stm(etcd::StmOptions),
    /// Benchmark lease keepalive
    LeaseKeepalive(etcd::LeaseOptions),
    /// Benchmark watch
    Watch(etcd::WatchOptions),
    /// Benchmark watch with get
    WatchGet(etcd::WatchGetOptions),
    /// Benchmark watch latency
    WatchLatency(etcd::WatchLatencyOptions),
    /// Benchmark mvcc
    #[command(subcommand)]
    Mvcc(etcd::MvccTask),
    /// Generate the autocompletion script for the specified shell
    Completion(etcd::CompletionOptions),
    /// A mix of puts, gets, deletes and transactions (not in benchmark)
    Mixed(own::MixedOptions),
    /// The load of a Kubernetes control plane (not in benchmark)
    Kubernetes(own::KubernetesOptions),
    /// The classical tables: put and range, few and many clients (not in benchmark)
    Suite(own::SuiteOptions),
    /// Make a page of one or two JSON results (not in benchmark)
    Report(own::ReportOptions),
}

impl Task {
    /// The name of the command, as the line has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Put(_) => "put",
            Self::Range(_) => "range",
            Self::TxnPut(_) => "txn-put",
            Self::TxnMixed(_) => "txn-mixed",
            Self::Stm(_) => "stm",
            Self::LeaseKeepalive(_) => "lease-keepalive",
            Self::Watch(_) => "watch",
            Self::WatchGet(_) => "watch-get",
            Self::WatchLatency(_) => "watch-latency",
            Self::Mvcc(_) => "mvcc",
            Self::Completion(_) => "completion",
            Self::Mixed(_) => "mixed",
            Self::Kubernetes(_) => "kubernetes",
            Self::Suite(_) => "suite",
            Self::Report(_) => "report",
        }
    }
}

/// Subcommands that exist under Stele's own name only.
const OWN_TASKS: [&str; 4] = ["mixed", "kubernetes", "suite", "report"];

/// What a line comes to when it is not run.
#[derive(Debug)]
pub(crate) enum NoRun {
    /// A page that was asked for.
    Page(String),
    /// What is wrong, in one line.
    Wrong(String),
}

/// The commands under the name that was called.
pub(crate) fn definition(own_name: bool) -> clap::Command {
    let mut line = with_go_switches(Line::command());
    if own_name {
        return line.name("stele bench").bin_name("stele bench");
    }
    for name in OWN_TASKS {
        line = line.mut_subcommand(name, |task| task.hide(true));
    }
    for name in own_options() {
        line = line.mut_arg(name, |arg| arg.hide(true));
    }
    line
}

/// The commands as scripts for shells want them: without spaces in names, so under Stele's own name it is the program
/// with one subcommand.
pub(crate) fn for_scripts(own_name: bool) -> clap::Command {
    let line = definition(own_name);
    if own_name { clap::Command::new("stele").subcommand(line.name("bench")) } else { line }
}

/// Switches that take `=true` and `=false` too, as pflag's do.
fn with_go_switches(command: clap::Command) -> clap::Command {
    let switch = |arg: clap::Arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .value_name("BOOL")
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .value_parser(BoolishValueParser::new())
            .hide_possible_values(true)
            .hide_default_value(true),
        _ => arg,
    };
    command.mut_args(switch).mut_subcommands(with_go_switches)
}

fn own_options() -> Vec<String> {
    let options = own::RunOptions::augment_args(clap::Command::new(""));
    options.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

/// Reads a line. `words` are those behind the program's name.
///
/// # Errors
/// A page that was asked for, or what is wrong.
pub(crate) fn read(own_name: bool, words: Vec<OsString>) -> Result<Line, NoRun> {
    let program = OsString::from(if own_name { "stele bench" } else { "benchmark" });
    let matches = definition(own_name)
        .try_get_matches_from([vec![program], words].concat())
        .map_err(|error| one_line(&error))?;
    if !own_name {
        refuse_own(&matches)?;
    }
    effect::refuse_without_effect(&matches).map_err(NoRun::Wrong)?;
    Line::from_arg_matches(&matches).map_err(|error| one_line(&error))
}

fn refuse_own(matches: &ArgMatches) -> Result<(), NoRun> {
    let Some((task, inner)) = matches.subcommand() else { return Ok(()) };
    if OWN_TASKS.contains(&task) {
        return Err(NoRun::Wrong(format!("unknown command \"{task}\" for \"benchmark\"")));
    }
    let given = |name: &str| effect::given(matches, name) || effect::given(inner, name);
    let own = own_options().into_iter().find(|name| given(name));
    own.map_or(Ok(()), |name| Err(NoRun::Wrong(format!("unknown flag: --{}", name.replace('_', "-")))))
}

fn one_line(error: &clap::Error) -> NoRun {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    // The name of a flag, without how its value is written.
    let argument = context(ContextKind::InvalidArg);
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default().to_owned();
    let said = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return NoRun::Page(error.render().to_string());
        }
        ErrorKind::UnknownArgument if flag.starts_with('-') => format!("unknown flag: {flag}"),
        ErrorKind::UnknownArgument => format!("unexpected argument \"{flag}\""),
        ErrorKind::InvalidSubcommand => {
            format!("unknown command \"{}\"", context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingRequiredArgument => format!("missing: {argument}"),
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue).is_empty() => {
            format!("flag needs an argument: {flag}")
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    };
    NoRun::Wrong(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(own_name: bool, line: &str) -> String {
        match read(own_name, line.split_whitespace().map(OsString::from).collect()) {
            Err(NoRun::Wrong(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn good(own_name: bool, line: &str) -> Line {
        read(own_name, line.split_whitespace().map(OsString::from).collect()).expect(line)
    }

    #[test]
    fn flags_stand_anywhere_and_switches_take_a_value() {
        let line =
            good(false, "--conns 3 put --total=5 --endpoints a:1,b:2 --sequential-keys=false --precise");
        assert_eq!((line.reach.conns, line.reach.precise), (3, true));
        assert_eq!(line.reach.endpoints, ["a:1", "b:2"]);
        let Task::Put(put) = line.task else { panic!("another command") };
        assert_eq!((put.total, put.sequential_keys, put.key_space_size), (5, false, 1));
        let Task::Range(range) = good(false, "range a b --consistency=s --limit 3").task else { panic!() };
        assert_eq!((range.keys.len(), range.consistency.as_str(), range.limit), (2, "s", 3));
    }

    #[test]
    fn wrong_lines_are_answered_with_one_line() {
        assert_eq!(wrong(false, "put --nothing"), "unknown flag: --nothing");
        assert_eq!(wrong(false, "nothing"), "unknown command \"nothing\"");
        assert_eq!(wrong(false, "put --total"), "flag needs an argument: --total");
        assert!(wrong(false, "put --total=x").contains("--total"));
        assert!(wrong(false, "put --compact-interval=5").contains("not a time such as 30s"));
        assert!(wrong(false, "range a --consistency=z").contains("--consistency"));
    }

    #[test]
    fn what_benchmark_does_not_have_exists_under_the_own_name_only() {
        assert_eq!(wrong(false, "suite"), "unknown command \"suite\" for \"benchmark\"");
        assert_eq!(wrong(false, "put --open-loop"), "unknown flag: --open-loop");
        assert_eq!(wrong(false, "--json=x put"), "unknown flag: --json");
        assert!(good(true, "put --open-loop --rate=5 --duration=1m30s").own.open_loop);
        let Task::Suite(suite) = good(true, "suite --scale 0.5").task else { panic!() };
        assert_eq!(suite.scale, 0.5);
    }

    /// The commands and options of the contract, as `command --option`.
    const CONTRACT: &str = include_str!("contract.txt");

    #[test]
    fn every_name_of_the_contract_is_known() {
        let line = definition(false);
        let global: Vec<String> =
            line.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
        for name in CONTRACT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (path, option) = name.split_once(" --").unwrap_or((name, ""));
            let mut command = &line;
            let shells = ["bash", "fish", "powershell", "zsh"];
            for word in path.split(' ').filter(|word| *word != "(global)" && !shells.contains(word)) {
                command = command.find_subcommand(word).unwrap_or_else(|| panic!("no command {path}"));
            }
            // The options of `mvcc` belong to its only command.
            let nested = command.get_subcommands().flat_map(clap::Command::get_arguments);
            let mut known = command.get_arguments().chain(nested).filter_map(clap::Arg::get_long);
            assert!(
                option.is_empty() || known.any(|long| long == option) || global.contains(&option.to_owned()),
                "{name}"
            );
        }
    }
}
