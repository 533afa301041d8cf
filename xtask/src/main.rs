//! Entry point.

mod codegen;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generate the wire types of crates/api from proto/
    Codegen {
        /// Only compare with what is committed
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Codegen { check } => codegen::run(check),
    };
    if let Err(reason) = result {
        eprintln!("xtask: {reason}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
