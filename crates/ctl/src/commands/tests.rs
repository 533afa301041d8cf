//! Lines as pflag and cobra read them. `tests/go/ctl` compares the pages and errors with etcdctl itself.

use std::time::Duration;

use cli::complete::proposals;
use cli::find::{find, words};
use cli::parse::{Parsed, parse};
use cli::values::{parse_duration, parse_int};
use cli::{Arg, help};

use super::{ETCDCTL, STELE_CTL};

fn line(text: &str) -> Vec<Arg> {
    text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

fn read(text: &str) -> Result<(String, Parsed), String> {
    let found = find(ETCDCTL, &line(text))?;
    let parsed = parse(ETCDCTL, &found.path, &found.rest)?;
    Ok((words(&found.path), parsed))
}

#[test]
fn flags_stand_anywhere_and_a_value_is_no_command() {
    let (command, parsed) =
        read("--endpoints a:1 -w json member --debug list --endpoints=b:2").expect("it is right");
    assert_eq!(command, "member list");
    assert_eq!(parsed.values.list("endpoints"), ["a:1", "b:2"]);
    assert_eq!(parsed.values.text("write-out"), "json");
    assert!(parsed.values.switch("debug") && parsed.values.on_line("debug"));
    assert!(parsed.args.is_empty());
}

#[test]
fn a_short_flag_takes_its_value_in_the_same_word_or_the_next() {
    for text in ["get k -wjson", "get k -w json", "get k -w=json"] {
        assert_eq!(read(text).expect(text).1.values.text("write-out"), "json");
    }
}

#[test]
fn two_dashes_end_the_flags() {
    let (_, parsed) = read("put -- -k --v").expect("it is right");
    assert_eq!(parsed.args, [b"-k".to_vec(), b"--v".to_vec()]);
}

#[test]
fn a_unique_beginning_calls_a_command_and_own_commands_are_not_etcdctls() {
    assert_eq!(read("mem li").expect("it is unique").0, "member list");
    assert!(read("l").is_err_and(|why| why.starts_with("unknown command \"l\" for \"etcdctl\"")));
    assert!(read("status").is_err());
    let own = find(STELE_CTL, &line("status")).expect("it exists");
    assert_eq!(words(&own.path), "status");
}

#[test]
fn wrong_flags_are_named_in_the_words_of_pflag() {
    let error = |text: &str| read(text).err().unwrap_or_default();
    assert_eq!(error("get --nonsense"), "unknown flag: --nonsense");
    assert_eq!(error("get --limit"), "flag needs an argument: --limit");
    assert_eq!(error("get -x"), "unknown shorthand flag: 'x' in -x");
    assert_eq!(
        error("get k --limit=1x"),
        "invalid argument \"1x\" for \"--limit\" flag: strconv.ParseInt: parsing \"1x\": invalid syntax"
    );
    assert_eq!(error("get k --watch"), "unknown flag: --watch");
}

#[test]
fn an_empty_word_is_an_argument_and_a_lone_dash_too() {
    let words = [b"get".to_vec(), Vec::new(), b"-".to_vec()];
    let found = find(ETCDCTL, &words).expect("it exists");
    let parsed = parse(ETCDCTL, &found.path, &found.rest).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(parsed.args, [Vec::new(), b"-".to_vec()]);
}

#[test]
fn durations_and_numbers_are_read_as_go_reads_them() {
    assert_eq!(parse_duration("1m1.5s"), Ok(Duration::from_millis(61_500)));
    assert_eq!(parse_duration("5").err(), Some("time: missing unit in duration \"5\"".to_owned()));
    assert_eq!(parse_duration("5x").err(), Some("time: unknown unit \"x\" in duration \"5x\"".to_owned()));
    assert_eq!(parse_int("-0x10", 0), Ok(-16));
    assert_eq!(parse_int("1_000", 0), Ok(1000));
    assert_eq!(parse_int("-9223372036854775808", 10), Ok(i64::MIN));
    assert!(parse_int("9223372036854775808", 10).is_err_and(|why| why.ends_with("value out of range")));
}

#[test]
fn pages_name_the_program_that_was_called() {
    let found = find(STELE_CTL, &line("lease")).expect("it exists");
    let page = help::page(STELE_CTL, &found.path);
    assert!(page.contains("\n  stele ctl lease [command]\n") && !page.contains("etcdctl"), "{page}");
}

#[test]
fn a_shell_is_offered_commands_flags_and_values() {
    let offered = |text: &str, unfinished: &str| {
        let mut words = line(text);
        words.push(unfinished.as_bytes().to_vec());
        proposals(ETCDCTL, &words, false)
    };
    assert_eq!(offered("", "le"), "lease\n:4\n");
    assert_eq!(offered("lease", "re"), "revoke\n:4\n");
    assert_eq!(offered("get", "--co"), "--command-timeout\n--consistency\n--count-only\n:4\n");
    assert_eq!(offered("get --order", "D"), "DESCEND\n:0\n");
    assert_eq!(offered("get", "--order=D"), "--order=DESCEND\n:0\n");
    assert_eq!(offered("completion", "z"), "zsh\n:4\n");
    assert_eq!(offered("get -w", "j"), "json\n:0\n");
}
