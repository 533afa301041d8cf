//! The table of commands: what a program, a command and a flag are.

/// One argument of a command line.
pub type Arg = Vec<u8>;

/// What a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, or `=true` and `=false`.
    Bool,
    /// A signed number of 64 bits.
    Int,
    /// A number of 64 bits without a sign.
    Uint,
    /// A number with a fraction.
    Float,
    /// Any text.
    Text,
    /// Texts with commas between them; a flag that is repeated adds to them.
    List,
    /// A duration as Go writes it, such as `1m30s`.
    Duration,
}

/// A flag of a command.
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Its name in one letter.
    pub short: Option<char>,
    /// What it takes.
    pub kind: Kind,
    /// Its value if it is not given.
    pub default: &'static str,
    /// What it is for.
    pub usage: &'static str,
    /// What a shell offers as its value.
    pub choices: &'static [&'static str],
}

/// The heading that a command stands under in the help page of the whole program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Keys and values.
    KeyValue,
    /// Members and their maintenance.
    Maintenance,
    /// Locks and elections.
    Concurrency,
    /// Users and roles.
    Authentication,
    /// All else.
    Utility,
}

impl Group {
    /// All of them, in the order of the page, with their headings.
    pub const ALL: [(Group, &'static str); 5] = [
        (Group::KeyValue, "Key-value commands"),
        (Group::Maintenance, "Cluster maintenance commands"),
        (Group::Concurrency, "Concurrency commands"),
        (Group::Authentication, "Authentication commands"),
        (Group::Utility, "Utility commands"),
    ];
}

/// A command, or a family of commands.
pub struct Command {
    /// Its name, and after it how its arguments are written.
    pub usage: &'static str,
    /// What it is for, in a line.
    pub short: &'static str,
    /// What it is for, if a line does not say it.
    pub long: &'static str,
    /// Lines that show its use.
    pub example: &'static str,
    /// Its heading in the page of the program.
    pub group: Option<Group>,
    /// Its flags.
    pub flags: &'static [Flag],
    /// Flags that etcdctl does not have, which exist under Stele's own name only.
    pub own_flags: &'static [Flag],
    /// Flags of this command and of all below it.
    pub shared_flags: &'static [Flag],
    /// The commands below it.
    pub children: &'static [Command],
    /// Whether etcdctl has no such command, so that it exists under Stele's own name only.
    pub own: bool,
}

/// What a command has that says nothing about itself, to be completed by `..`.
pub const BLANK: Command = Command {
    usage: "",
    short: "",
    long: "",
    example: "",
    group: None,
    flags: &[],
    own_flags: &[],
    shared_flags: &[],
    children: &[],
    own: false,
};

impl Command {
    /// The word that calls it.
    pub fn name(&self) -> &'static str {
        self.usage.split(' ').next().unwrap_or_default()
    }

    /// Whether it does something by itself: a family only shows its page.
    pub fn runs(&self) -> bool {
        self.children.is_empty()
    }
}

/// The program that was called: its name decides what exists, and how pages name it.
#[derive(Clone, Copy)]
pub struct Program {
    /// The words a user types to call it.
    pub name: &'static str,
    /// etcd's program whose commands and pages these are. Under another name there are commands of our own, too.
    pub original: &'static str,
    /// The table of its commands.
    pub root: &'static Command,
    /// How its pages look.
    pub layout: PageLayout,
}

/// How the pages of one of etcd's programs look, and what else differs between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PageLayout {
    /// etcdctl: the flags of all commands stand on a page of their own.
    Split,
    /// etcdutl: the flags of all commands stand on each page, and what a command is for on none.
    Terse,
    /// benchmark: all stands on each page. A command is called by its whole name.
    Whole,
}

impl Program {
    /// Whether it was called by a name of our own.
    pub fn is_own(self) -> bool {
        self.name != self.original
    }

    /// Whether a command of the table exists in this program.
    pub fn has(self, command: &Command) -> bool {
        self.is_own() || !command.own
    }

    /// The flags of a command in this program, without those it shares with others.
    pub fn flags(self, command: &Command) -> impl Iterator<Item = &'static Flag> + use<> {
        let own = if self.is_own() { command.own_flags } else { &[] };
        command.flags.iter().chain(own)
    }

    /// A page of etcd's program with this program's name in it.
    pub fn named(self, page: String) -> String {
        if self.is_own() { page.replace(self.original, self.name) } else { page }
    }
}

/// A switch without a value.
pub const fn switch(name: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Bool, default: "false", usage, choices: &[] }
}

/// A switch that is on unless `=false` is given.
pub const fn switch_on(name: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Bool, default: "true", usage, choices: &[] }
}

/// A number with a sign, 0 unless given.
pub const fn int(name: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Int, default: "0", usage, choices: &[] }
}

/// A text.
pub const fn text(name: &'static str, default: &'static str, usage: &'static str) -> Flag {
    Flag { name, short: None, kind: Kind::Text, default, usage, choices: &[] }
}
