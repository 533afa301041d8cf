//! A row of the table of flags, and short constructors.

use FlagKind::{Bool, Count, Duration, Integer, List, Text, Urls};

/// How a flag's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// `true` or `false`; the bare flag means `true`.
    Bool,
    /// A whole number that is not negative and fits this many bits.
    Count(u32),
    /// A whole number of 64 bits.
    Integer,
    /// A duration as Go writes it: `1h30m`, `100ms`.
    Duration,
    /// Any text.
    Text,
    /// Comma-separated texts.
    List,
    /// Comma-separated URLs.
    Urls,
}

/// What setting a flag to something other than its default does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// That of its description.
    Full,
    /// None, which is harmless: the flag is accepted and noted in the log. Holds the reason.
    None(&'static str),
    /// Refused, because ignoring it would weaken security or change behaviour. Holds what is missing.
    Refused(&'static str),
}

/// The sections of `--help`, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// This member.
    Member,
    /// How members find each other.
    Clustering,
    /// TLS, origins and hosts.
    Security,
    /// Users and tokens.
    Auth,
    /// Metrics.
    Profiling,
    /// What is logged, how and where.
    Logging,
    /// Spans.
    Tracing,
    /// Rarely tuned flags.
    Features,
    /// Flags that may lose data.
    Unsafe,
}

impl Section {
    /// Heading in `--help`.
    pub fn title(self) -> &'static str {
        match self {
            Section::Member => "Member",
            Section::Clustering => "Clustering",
            Section::Security => "Security",
            Section::Auth => "Auth",
            Section::Profiling => "Profiling and Monitoring",
            Section::Logging => "Logging",
            Section::Tracing => "Distributed tracing",
            Section::Features => "Features",
            Section::Unsafe => "Unsafe feature",
        }
    }
}

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Name without dashes.
    pub name: &'static str,
    /// Its value when it is not set; empty stands for zero, false or nothing.
    pub default: &'static str,
    /// How its value is written.
    pub kind: FlagKind,
    /// Where `--help` lists it.
    pub section: Section,
    /// What it does.
    pub help: &'static str,
    /// What setting it does in Stele.
    pub effect: Effect,
}

impl Flag {
    pub(super) const fn new(
        kind: FlagKind,
        name: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Flag {
        Flag { name, default, kind, section: Section::Member, help, effect: Effect::Full }
    }

    pub(super) const fn section(mut self, section: Section) -> Flag {
        self.section = section;
        self
    }

    pub(super) const fn no_effect(mut self, why: &'static str) -> Flag {
        self.effect = Effect::None(why);
        self
    }

    pub(super) const fn refused(mut self, missing: &'static str) -> Flag {
        self.effect = Effect::Refused(missing);
        self
    }

    /// Name of the environment variable that sets this flag.
    pub fn variable(&self) -> String {
        format!("ETCD_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

pub(super) const fn text(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Text, name, default, help)
}

pub(super) const fn list(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(List, name, default, help)
}

pub(super) const fn urls(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Urls, name, default, help)
}

pub(super) const fn switch(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Bool, name, default, help)
}

pub(super) const fn count(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Count(64), name, default, help)
}

pub(super) const fn integer(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Integer, name, default, help)
}

pub(super) const fn duration(name: &'static str, default: &'static str, help: &'static str) -> Flag {
    Flag::new(Duration, name, default, help)
}
