//! `sim`: runs one seed, a number of seeds, or seeds for hours; as a whole or in parts whose figures are added up.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use sim::{CampaignFigures, Defect};

/// The fastest allocator for a run, which allocates all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whole clusters in one thread, from one seed.
#[derive(Parser)]
struct Args {
    /// Run this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Indices of the planned faults that strike; all when not given.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    faults: Option<Vec<usize>>,
    /// Shrink the fault schedule of a failing seed.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Print every event that has a text.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Run this many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run only one seed in this many, to choose a kind of run.
    #[arg(long, default_value_t = NonZeroUsize::MIN)]
    every: NonZeroUsize,
    /// Run seeds for this many hours, or until one fails.
    #[arg(long)]
    hours: Option<f64>,
    /// Runs at the same time; all cores when not given.
    #[arg(long)]
    jobs: Option<usize>,
    /// Write the figures to this file, as JSON; it is replaced every 25 seeds.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Add up the figures in these files.
    #[arg(long, num_args = 1.., conflicts_with_all = ["seed", "seeds", "hours", "json", "defects"])]
    sum: Vec<PathBuf>,
    /// Run with this deliberate defect.
    #[arg(long)]
    defect: Option<Defect>,
    /// Run with each defect until it is noticed, for at most this many seeds.
    #[arg(long)]
    defects: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    match (args.seed, args.defects) {
        (Some(seed), _) if args.shrink => println!("{}", sim::shrink_seed(seed, args.defect)?),
        (Some(seed), _) => {
            println!("{}", sim::replay(seed, args.defect, args.faults.clone(), args.trace)?);
        }
        (None, Some(max_seeds)) => return defects(args, max_seeds),
        (None, None) if !args.sum.is_empty() => return sum(&args.sum),
        (None, None) => return seeds(args),
    }
    Ok(())
}

fn jobs(args: &Args) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    args.jobs.unwrap_or_else(cores)
}

fn seeds(args: &Args) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "the duration of a campaign is real time")]
    let begun = std::time::Instant::now();
    #[expect(clippy::disallowed_methods, reason = "the duration of a campaign is real time")]
    let elapsed_s = || begun.elapsed().as_secs_f64();
    let limit = args.seeds.unwrap_or(if args.hours.is_some() { u64::MAX } else { 100 });
    let in_time = || args.hours.is_none_or(|hours| elapsed_s() < hours * 3600.0);
    let jobs = jobs(args);
    let timed = |figures: &CampaignFigures| figures.clone().timed(elapsed_s(), jobs);
    let mut written = Ok(());
    let progress = |figures: &CampaignFigures| {
        eprintln!("{}", figures.line());
        if let Some(path) = &args.json {
            written = write_figures(&timed(figures), path);
        }
    };
    let seeds = (args.from..).step_by(args.every.get());
    let figures = sim::run_seeds(seeds, jobs, |begun| begun < limit && in_time(), progress)?;
    written?;
    verdict(&timed(&figures))
}

/// Prints the summary. Pairs and events that never occurred are an error.
fn verdict(figures: &CampaignFigures) -> Result<(), String> {
    println!("{}", figures.summary());
    let untested = figures.untested();
    if untested.is_empty() { Ok(()) } else { Err(format!("never tested:\n  {}", untested.join("\n  "))) }
}

/// Replaces the file of figures in one step, so that it is complete whenever the campaign is interrupted.
fn write_figures(figures: &CampaignFigures, path: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())?;
    let new = path.with_extension("new");
    let written = std::fs::write(&new, text + "\n").and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

fn sum(paths: &[PathBuf]) -> Result<(), String> {
    let mut all = CampaignFigures::default();
    for path in paths {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        let part: CampaignFigures = serde_json::from_str(&text).map_err(|error| named(&error))?;
        all.add(&part).map_err(|error| named(&error))?;
    }
    verdict(&all)
}

fn defects(args: &Args, max_seeds: u64) -> Result<(), String> {
    let all = args.defect.map_or(Defect::ALL.to_vec(), |defect| vec![defect]);
    let mut missed = Vec::new();
    for (defect, found) in sim::run_defects(&all, jobs(args), max_seeds) {
        match found {
            Some((seeds, check)) => println!("{defect:?}: {seeds} seeds, by \"{check}\""),
            None => {
                println!("{defect:?}: not noticed in {max_seeds} seeds");
                missed.push(format!("{defect:?}"));
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not noticed: {}", missed.join(", "))) }
}
