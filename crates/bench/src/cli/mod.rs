//! The command line: commands and options of etcd's `benchmark`, and more under Stele's own name.
//!
//! clap reads it. Where that reads a line otherwise than cobra does, or says otherwise what is wrong, this module makes
//! up for it: switches take `=true` and `=false`, times are written as Go writes them, and what is wrong is said in one
//! line. Called as `benchmark`, the line is first read as that program reads it: its pages and errors are those of
//! cobra, and what it does not have is unknown.
//!
//! | file | holds |
//! |---|---|
//! | `benchmark.rs` | the table of `benchmark`: its names and the texts of its pages |
//! | `cobra.rs` | a line of `benchmark`: pages and errors |
//! | `effect.rs` | refuses what has no effect |
//! | `etcd.rs` | the commands of `benchmark` |
//! | `no_run.rs` | what a line comes to that is not run |
//! | `own.rs` | the commands and options that it does not have |
//! | `values.rs` | values: times, sizes |

mod benchmark;
mod cobra;
mod effect;
pub(crate) mod etcd;
mod no_run;
pub(crate) mod own;
pub(crate) mod values;

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use no_run::one_line;
pub(crate) use no_run::{NoRun, WRONG_LINE};
use values::duration;

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
    let (program, words) =
        if own_name { ("stele bench", words) } else { ("benchmark", cobra::read(&words)?) };
    let matches = definition(own_name)
        .try_get_matches_from([vec![program.into()], words].concat())
        .map_err(|error| one_line(&error))?;
    effect::refuse_without_effect(&matches).map_err(NoRun::Wrong)?;
    Line::from_arg_matches(&matches).map_err(|error| one_line(&error))
}

#[cfg(test)]
mod tests;
