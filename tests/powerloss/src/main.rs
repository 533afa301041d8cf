//! `powerloss`: records a member and loses power at every point of the recording.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use powerloss::CutPlan;

/// Recovery from every cut point of a recorded run of a real member.
#[derive(Parser)]
struct Args {
    /// Decides the requests and the random images.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Recordings, each of the next seed.
    #[arg(long, default_value_t = 1)]
    recordings: u64,
    /// Steps of each: bursts of commands, compactions, leases, pauses, restarts.
    #[arg(long, default_value_t = 1_000)]
    steps: usize,
    /// Random images of every cut point.
    #[arg(long, default_value_t = 3)]
    chances: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    for seed in args.seed..args.seed + args.recordings {
        let begun = Instant::now();
        let directory = tempfile::tempdir().map_err(|error| format!("no directory to record in: {error}"))?;
        let recording = powerloss::record(directory.path(), seed, args.steps)?;
        let recorded = begun.elapsed();
        println!("seed {seed}: {recording}, recorded in {:.1} s", recorded.as_secs_f64());
        let Args { chances, threads, .. } = *args;
        let plan = CutPlan { seed, chances, go_on_every: 4, threads, defect: None };
        let figures = powerloss::cut_everywhere(&recording, plan).map_err(|failure| failure.to_string())?;
        println!("seed {seed}: {figures}, in {:.1} s", (begun.elapsed() - recorded).as_secs_f64());
    }
    Ok(())
}
