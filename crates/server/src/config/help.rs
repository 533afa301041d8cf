//! What `--help` and `--version` print.

use std::fmt::Write as _;

use super::table::{self, Effect, Flag, Section};
use super::types::feature_gates;

const SECTIONS: [Section; 9] = [
    Section::Member,
    Section::Clustering,
    Section::Security,
    Section::Auth,
    Section::Profiling,
    Section::Logging,
    Section::Tracing,
    Section::Features,
    Section::Unsafe,
];

/// The first lines of the help.
pub(super) fn usage(program: &str) -> String {
    format!(
        "Usage:\n\n  {program} [flags]\n    Start a server.\n\n  {program} --version\n    Show the version.\n\n  \
         {program} -h | --help\n    Show this text.\n\n  {program} --check [flags]\n    \
         Check the configuration and the data directory, start nothing and change nothing.\n\n  \
         {program} --config-file FILE\n    \
         Take the configuration from a YAML file; other flags and environment variables are then ignored.\n\n\
         Each flag can be set by an environment variable as well: --initial-cluster by ETCD_INITIAL_CLUSTER.\n"
    )
}

/// All of `--help`.
pub(super) fn help(program: &str) -> String {
    let mut text = usage(program);
    for section in SECTIONS {
        text.push_str(&format!("\n{}:\n", section.title()));
        table::flags().filter(|flag| flag.section == section).for_each(|flag| describe(&mut text, flag));
    }
    text
}

fn describe(text: &mut String, flag: &Flag) {
    // Writing to a String cannot fail.
    let _ = write!(text, "  --{} '{}'\n    {}", flag.name, flag.default, flag.help);
    match flag.effect {
        Effect::Full => {}
        Effect::None(why) => text.push_str(&format!(" Has no effect: {why}.")),
        Effect::Refused(missing) => text.push_str(&format!(" Not supported yet: {missing}.")),
    }
    text.push('\n');
    if flag.name == "feature-gates" {
        feature_gates::describe().iter().for_each(|gate| text.push_str(&format!("    {gate}\n")));
    }
}

/// All of `--version`. Called as `etcd`, it has etcd's lines, because scripts read them.
pub(super) fn version(program: &str) -> String {
    if program == "etcd" {
        return api::version::etcd_version_lines();
    }
    let (own, etcd) = (env!("CARGO_PKG_VERSION"), api::version::ETCD_VERSION);
    let (system, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("stele Version: {own}\netcd Version: {etcd}\nOS/Arch: {system}/{architecture}\n")
}
