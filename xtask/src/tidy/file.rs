//! The files that tidy checks, and what it finds in them.

/// A text file of the repository.
pub(super) struct File {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_go(&self) -> bool {
        self.path.ends_with(".go")
    }

    pub(super) fn is_document(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub(super) fn is_generated(&self) -> bool {
        self.path.split('/').any(|part| part == "generated")
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.iter().any(|part| ["tests", "benches", "tests.rs"].contains(part))
    }

    /// Whether it is Rust below a folder `src`.
    pub(super) fn is_source(&self) -> bool {
        self.is_rust() && self.path.split('/').any(|part| part == "src")
    }

    /// The folder, without a slash at its end.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// Whether the module system asks for this name, so that the file is what its folder or crate is.
    pub(super) fn is_root(&self) -> bool {
        ["lib.rs", "main.rs", "mod.rs"].contains(&self.name())
    }

    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Something that breaks a rule.
pub(super) struct Finding {
    pub(super) path: String,
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) what: String,
}

impl Finding {
    pub(super) fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}
