//! Lines and what they come to.

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
    let line = good(false, "--conns 3 put --total=5 --endpoints a:1,b:2 --sequential-keys=false --precise");
    assert_eq!((line.reach.conns, line.reach.precise), (3, true));
    assert_eq!(line.reach.endpoints, ["a:1", "b:2"]);
    let Task::Put(put) = line.task else { panic!("another command") };
    assert_eq!((put.total, put.sequential_keys, put.key_space_size), (5, false, 1));
    let Task::Range(range) = good(false, "range a b --consistency=s --limit 3").task else { panic!() };
    assert_eq!((range.keys.len(), range.consistency.as_str(), range.limit), (2, "s", 3));
}

#[test]
fn wrong_lines_are_answered_with_one_line() {
    assert_eq!(wrong(true, "put --nothing"), "unknown flag: --nothing");
    assert_eq!(wrong(true, "nothing"), "unknown command \"nothing\"");
    assert_eq!(wrong(true, "put --total"), "flag needs an argument: --total");
    assert!(wrong(true, "put --total=x").contains("--total"));
    assert!(wrong(true, "put --compact-interval=5").contains("not a time such as 30s"));
    assert!(wrong(true, "range a --consistency=z").contains("--consistency"));
}

fn refused(line: &str) -> (String, u8) {
    match read(false, line.split_whitespace().map(OsString::from).collect()) {
        Err(NoRun::Refused { text, code }) => (text, code),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn wrong_lines_of_benchmark_are_answered_as_it_does() {
    let said = "unknown command \"putt\" for \"benchmark\"\n\nDid you mean this?\n\tput\n";
    let text = format!("Error: {said}\nRun 'benchmark --help' for usage.\n{said}");
    assert_eq!(refused("putt"), (text, WRONG_LINE));
    let (text, code) = refused("put --total=x");
    assert!(text.starts_with("Error: invalid argument \"x\" for \"--total\" flag: strconv"), "{text}");
    assert!(code == WRONG_LINE && text.contains("\n  benchmark put [flags]\n"), "{text}");
    assert_eq!(refused("range a --consistency=x").1, 1);
    assert_eq!(refused("help nothing").1, 0);
    let Task::Put(put) = good(false, "put nothing --total=0x10 --sequential-keys=T").task else { panic!() };
    assert!(put.total == 16 && put.sequential_keys);
}

#[test]
fn what_benchmark_does_not_have_exists_under_the_own_name_only() {
    assert!(refused("suite").0.starts_with("Error: unknown command \"suite\" for \"benchmark\"\n"));
    assert!(refused("put --open-loop").0.starts_with("Error: unknown flag: --open-loop\n"));
    assert!(refused("--json=x put").0.starts_with("Error: unknown flag: --json\n"));
    assert!(good(true, "put --open-loop --rate=5 --duration=1m30s").own.open_loop);
    let Task::Suite(suite) = good(true, "suite --scale 0.5").task else { panic!() };
    assert_eq!(suite.scale, 0.5);
}

#[test]
fn help_before_a_command_takes_its_name_for_a_value() {
    for (line, about) in [
        ("-h put", "benchmark is a low-level"),
        ("put -h", "Benchmark put\n"),
        ("help put", "Benchmark put\n"),
    ] {
        match read(false, line.split_whitespace().map(OsString::from).collect()) {
            Err(NoRun::Page(page)) => assert!(page.starts_with(about), "{line}: {page}"),
            other => panic!("{line}: {other:?}"),
        }
    }
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
        let words: Vec<::cli::Arg> =
            path.split(' ').filter(|word| *word != "(global)").map(|word| word.into()).collect();
        let found = ::cli::find::find(benchmark::BENCHMARK, &words).expect("it is known");
        let mut flags = ::cli::find::flags_of(benchmark::BENCHMARK, &found.path);
        assert!(
            found.rest.is_empty() && (option.is_empty() || flags.any(|flag| flag.name == option)),
            "{name}"
        );
    }
}
