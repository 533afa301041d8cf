//! `sim`: runs the simulator. One seed, a number of them, or for hours.

use std::process::ExitCode;

use clap::Parser;
use sim::Defect;

/// A run allocates all the time, and nothing else is as quick at it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whole clusters in one thread, from one seed.
#[derive(Parser)]
struct Args {
    /// Run this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Of its planned faults, only these strike.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    faults: Option<Vec<usize>>,
    /// Cut the failing seed down.
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Print every event worth reading.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Run so many seeds.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Run until something is found, for so many hours.
    #[arg(long)]
    hours: Option<f64>,
    /// Make this mistake on purpose.
    #[arg(long)]
    defect: Option<Defect>,
    /// Make each mistake in turn, and say how many seeds it took to notice, at most so many.
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
        (Some(seed), _) if args.shrink => println!("{}", sim::shrink(seed, args.defect)?),
        (Some(seed), _) => {
            println!("{}", sim::replay(seed, args.defect, args.faults.clone(), args.trace)?);
        }
        (None, Some(seeds_max)) => return defects(args.defect, seeds_max),
        (None, None) => return seeds(args),
    }
    Ok(())
}

fn seeds(args: &Args) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "how long to go on is a matter of real time")]
    let begun = std::time::Instant::now();
    let limit = args.seeds.unwrap_or(if args.hours.is_some() { u64::MAX } else { 100 });
    #[expect(clippy::disallowed_methods, reason = "how long to go on is a matter of real time")]
    let in_time = || args.hours.is_none_or(|hours| begun.elapsed().as_secs_f64() < hours * 3600.0);
    let campaign = sim::run_seeds(args.from, |done| done < limit && in_time(), |line| eprintln!("{line}"))?;
    println!("{}", campaign.summary());
    let untested = campaign.untested();
    if untested.is_empty() { Ok(()) } else { Err(format!("never tested:\n  {}", untested.join("\n  "))) }
}

fn defects(only: Option<Defect>, seeds_max: u64) -> Result<(), String> {
    let all = only.map_or(Defect::ALL.to_vec(), |defect| vec![defect]);
    let mut missed = Vec::new();
    for (defect, found) in sim::run_defects(&all, seeds_max) {
        match found {
            Some((seeds, check)) => println!("{defect:?}: {seeds} seeds, by \"{check}\""),
            None => {
                println!("{defect:?}: not noticed in {seeds_max} seeds");
                missed.push(format!("{defect:?}"));
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(format!("not noticed: {}", missed.join(", "))) }
}
