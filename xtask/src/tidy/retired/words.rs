//! The table of retired words.

/// Words, where they are retired, and what to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Retired {
    /// In lower case; phrases only where the scope is prose.
    pub(super) words: &'static [&'static str],
    pub(super) scope: Scope,
    pub(super) instead: &'static str,
}

/// Where a word is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In names and in prose.
    Everywhere,
    /// In short names; in prose and in sentences the word has an ordinary meaning.
    Names,
    /// In short names of types.
    Types,
    /// In prose.
    Prose,
}

const fn everywhere(words: &'static [&'static str], instead: &'static str) -> Retired {
    Retired { words, scope: Scope::Everywhere, instead }
}

const fn names(words: &'static [&'static str], instead: &'static str) -> Retired {
    Retired { words, scope: Scope::Names, instead }
}

const fn types(words: &'static [&'static str], instead: &'static str) -> Retired {
    Retired { words, scope: Scope::Types, instead }
}

const fn prose(words: &'static [&'static str], instead: &'static str) -> Retired {
    Retired { words, scope: Scope::Prose, instead }
}

pub(super) const RETIRED: &[Retired] = &[
    // Threads and queues.
    everywhere(&["mailbox", "mailboxes"], "say input queue"),
    everywhere(&["desk", "desks"], "say submission queue or completion queue"),
    everywhere(&["bell", "bells"], "say coalescing notifier"),
    everywhere(&["seat", "seats"], "say flat combining, or who runs the iteration"),
    everywhere(&["volunteer", "volunteers", "volunteered", "volunteering"], "say inline flush"),
    everywhere(&["inbox", "inboxes"], "say proposal queue or event buffer"),
    everywhere(&["crowd", "crowds", "crowded"], "say large batch"),
    names(&["turn", "turns"], "say iteration"),
    names(&["bring", "brings"], "say what is done: submit, deliver, load"),
    // The singular is the name of a library.
    names(&["rings"], "say notify"),
    names(&["pace", "paces", "paced"], "say group-commit delay, or rate"),
    types(&["hand"], "say who flushes"),
    prose(&["deciding thread"], "say raft loop"),
    prose(&["stele-decide"], "the thread of the raft loop is stele-raft"),
    prose(&["confirm round", "confirm rounds", "confirmation round"], "say ReadIndex round"),
    // Members.
    everywhere(&["heir", "heirs"], "say transfer target"),
    everywhere(&["upkeep"], "say maintenance, or name its task"),
    everywhere(&["comeback", "comebacks"], "say startup election"),
    names(&["agree", "agrees"], "say ready loop, or what the two agree on"),
    // The log.
    everywhere(&["shelf", "shelves"], "say shared files"),
    everywhere(&["workshop", "workshops"], "say segment factory"),
    everywhere(&["heal", "heals", "healed", "healing"], "say repair"),
    everywhere(&["mend", "mends", "mended", "mending"], "say repair"),
    everywhere(&["reclaim", "reclaims", "reclaimed", "reclaiming"], "say relocate or free"),
    everywhere(&["mover", "movers"], "say relocation"),
    names(&["place", "places"], "say address, or what is there"),
    names(&["era", "eras"], "say epoch"),
    names(&["spare", "spares"], "say preallocated segment"),
    names(&["gap", "gaps"], "say read slot"),
    names(&["piece", "pieces"], "say chunk, buffer or part"),
    names(&["listing", "growing"], "say range or streamed response"),
    types(&["met"], "say known damage"),
    // Homely English.
    prose(&["whoever", "whomever"], "name who: a reader, the caller, a peer"),
    prose(&["nobody", "nobody's"], "name who does not: no caller, no member"),
    prose(&["those who"], "name who: readers, callers, peers"),
    prose(&["is told", "are told"], "say receives, learns or is notified"),
    prose(&["lets them go", "lets it go", "let them go", "let go of"], "say releases"),
    prose(&["to each other's", "do to each other"], "say interact, or name the effect"),
    prose(&["amid"], "say during or partway through"),
    prose(&["anew"], "say again"),
    prose(&["for ever"], "say forever"),
    prose(&["in good order"], "say cleanly"),
    prose(&["passed over"], "say skipped"),
    prose(&["is believed", "are believed"], "say is trusted"),
    prose(&["as wished", "is wished", "are wished", "if wished"], "say requested"),
    prose(&["made-up certificate", "made-up certificates"], "say generated certificate"),
];
