//! From a path to the module that defines what it names.

use std::collections::BTreeSet;

use super::references::Import;
use super::tree::SourceTree;

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// An item that this module defines, or something within the item.
    ItemOf(usize),
    Module(usize),
    /// Something that another crate defines.
    Foreign,
    /// A name that this module has from a macro, or not at all.
    UnknownOf(usize),
}

impl SourceTree {
    /// What `path` names in the code of `module`; `None` for a local variable, or a name of another crate.
    pub(crate) fn resolve(&self, module: usize, path: &[String]) -> Option<Target> {
        self.follow(module, path, &mut BTreeSet::new())
    }

    /// The files below the root of the tree that are visible to its users, as pairs of module and name.
    pub(crate) fn public_items(&self) -> BTreeSet<(usize, String)> {
        let mut found = BTreeSet::new();
        let mut pending = vec![0];
        let mut seen = BTreeSet::new();
        while let Some(module) = pending.pop() {
            if !seen.insert(module) {
                continue;
            }
            let here = &self.modules[module];
            let items = here.items.iter().filter(|item| item.is_public);
            found.extend(items.map(|item| (module, item.name.clone())));
            pending
                .extend(here.children.values().filter(|(_, is_public)| *is_public).map(|(child, _)| *child));
            for import in here.imports.iter().filter(|import| import.is_public) {
                match (self.resolve(module, &import.path), import.path.last()) {
                    (Some(Target::Module(target)), _) => pending.push(target),
                    (Some(Target::ItemOf(target)), Some(name)) => {
                        found.insert((target, name.clone()));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Whether `module` is `ancestor` or below it.
    pub(crate) fn is_within(&self, module: usize, ancestor: usize) -> bool {
        let mut next = Some(module);
        while let Some(module) = next {
            if module == ancestor {
                return true;
            }
            next = self.modules[module].parent;
        }
        false
    }

    fn follow(&self, module: usize, path: &[String], seen: &mut Seen) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => 0,
            "self" => module,
            "super" => self.modules[module].parent?,
            name => match self.look_up(module, name, !rest.is_empty(), seen)? {
                Target::Module(found) => found,
                other => return Some(other),
            },
        };
        while let Some((name, more)) = rest.split_first() {
            rest = more;
            if name == "super" {
                here = self.modules[here].parent?;
                continue;
            }
            match self.look_up(here, name, !more.is_empty(), seen) {
                Some(Target::Module(next)) => here = next,
                Some(other) => return Some(other),
                None => return Some(Target::UnknownOf(here)),
            }
        }
        Some(Target::Module(here))
    }

    /// What `name` is in the scope of `module`. A module may share its name with a function: `before_more` says that
    /// more of a path follows, which only a module or a type can have.
    fn look_up(&self, module: usize, name: &str, before_more: bool, seen: &mut Seen) -> Option<Target> {
        if !seen.insert((module, name.to_owned())) {
            return None;
        }
        let found = self.look_up_once(module, name, before_more, seen);
        seen.remove(&(module, name.to_owned()));
        found
    }

    fn look_up_once(&self, module: usize, name: &str, before_more: bool, seen: &mut Seen) -> Option<Target> {
        let here = &self.modules[module];
        let item = || here.items.iter().any(|item| item.name == name).then_some(Target::ItemOf(module));
        let child = || here.children.get(name).map(|(child, _)| Target::Module(*child));
        let defined = if before_more { child().or_else(item) } else { item().or_else(child) };
        let named = |import: &&Import| import.name.as_deref() == Some(name);
        defined
            .or_else(|| {
                let import = here.imports.iter().find(named)?;
                Some(self.follow(module, &import.path, seen).unwrap_or(Target::Foreign))
            })
            .or_else(|| self.look_up_in_globs(module, name, before_more, seen))
    }

    fn look_up_in_globs(
        &self,
        module: usize,
        name: &str,
        before_more: bool,
        seen: &mut Seen,
    ) -> Option<Target> {
        let globs = self.modules[module].imports.iter().filter(|import| import.is_glob);
        for glob in globs {
            if let Some(Target::Module(from)) = self.follow(module, &glob.path, seen)
                && let Some(found) = self.look_up(from, name, before_more, seen)
            {
                return Some(found);
            }
        }
        None
    }
}

/// What is being looked up, so that imports in a circle come to an end.
type Seen = BTreeSet<(usize, String)>;
