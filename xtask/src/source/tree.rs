//! The module tree of one library or binary.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::attributes::{derives_error, file_named_by, is_test, of_item};
use super::references::{Import, Mention, References};

/// Reads a file of the repository by its path from the root.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A library or a binary.
#[derive(Default)]
pub(crate) struct SourceTree {
    /// Paths of the files from the root of the repository; the first is the root of the crate.
    pub(crate) files: Vec<String>,
    /// The first is the root; a parent stands before its children.
    pub(crate) modules: Vec<Module>,
}

/// A module: a file, or an inline part of one.
pub(crate) struct Module {
    pub(crate) parent: Option<usize>,
    /// Index of its file.
    pub(crate) file: usize,
    /// Child modules by name, with whether they are `pub`.
    pub(crate) children: BTreeMap<String, (usize, bool)>,
    pub(crate) items: Vec<Item>,
    pub(crate) imports: Vec<Import>,
    pub(crate) mentions: Vec<Mention>,
}

/// Something with a name that a module defines.
pub(crate) struct Item {
    pub(crate) name: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Whether it is a struct, an enum, a union, a trait or an alias of a type.
    pub(crate) is_type: bool,
    /// Whether it derives `Error`, or the module implements `Error` for it.
    pub(crate) is_error: bool,
    /// Whether it is `pub` without a restriction.
    pub(crate) is_public: bool,
}

/// Reads the tree below `root`.
pub(super) fn read(root: &str, read: Read<'_>) -> Result<SourceTree, String> {
    let mut reader = Reader { read, tree: SourceTree::default() };
    let folder = Path::new(root).parent().map(Path::to_path_buf).unwrap_or_default();
    reader.file(root, &folder, None)?;
    Ok(reader.tree)
}

struct Reader<'a> {
    read: Read<'a>,
    tree: SourceTree,
}

impl Reader<'_> {
    /// Reads the module in the file `path`; the files of its children are in `folder`.
    fn file(&mut self, path: &str, folder: &Path, parent: Option<usize>) -> Result<usize, String> {
        let text = (self.read)(path).ok_or_else(|| format!("{path}: there is no such file"))?;
        let parsed = syn::parse_file(&text);
        let parsed = parsed.map_err(|error| format!("{path}:{}: {error}", error.span().start().line))?;
        self.tree.files.push(path.to_owned());
        self.module(&parsed.items, self.tree.files.len() - 1, folder, parent)
    }

    fn module(
        &mut self,
        items: &[syn::Item],
        file: usize,
        folder: &Path,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let id = self.tree.modules.len();
        let (items, modules): (Vec<_>, Vec<_>) = items
            .iter()
            .filter(|item| !is_test(of_item(item)))
            .partition(|item| !matches!(item, syn::Item::Mod(_)));
        let found = References::of(&items);
        self.tree.modules.push(Module {
            parent,
            file,
            children: BTreeMap::new(),
            items: definitions(&items),
            imports: found.imports,
            mentions: found.mentions,
        });
        for module in modules {
            let syn::Item::Mod(module) = module else { continue };
            let child = self.child(module, file, folder, id)?;
            let is_public = matches!(module.vis, syn::Visibility::Public(_));
            self.tree.modules[id].children.insert(module.ident.to_string(), (child, is_public));
        }
        Ok(id)
    }

    fn child(
        &mut self,
        module: &syn::ItemMod,
        file: usize,
        folder: &Path,
        parent: usize,
    ) -> Result<usize, String> {
        let name = module.ident.to_string();
        let below = folder.join(&name);
        if let Some((_, items)) = &module.content {
            return self.module(items, file, &below, Some(parent));
        }
        if let Some(path) = file_named_by(&module.attrs) {
            let beside =
                Path::new(&self.tree.files[file]).parent().map(Path::to_path_buf).unwrap_or_default();
            let path = plain(&beside.join(path));
            let folder = Path::new(&path).parent().map(Path::to_path_buf).unwrap_or_default();
            return self.file(&path, &folder, Some(parent));
        }
        let flat = plain(&folder.join(format!("{name}.rs")));
        let path = if (self.read)(&flat).is_some() { flat } else { plain(&below.join("mod.rs")) };
        self.file(&path, &below, Some(parent))
    }
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::Normal(part) => plain.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    plain.to_string_lossy().into_owned()
}

/// The items with names. An implementation of `Error` marks its type, wherever in the module it stands.
fn definitions(items: &[&syn::Item]) -> Vec<Item> {
    let errors: Vec<String> = items.iter().filter_map(|item| implements_error(item)).collect();
    let define = |item: &&syn::Item| {
        let (ident, vis, is_type) = named(item)?;
        let name = ident.to_string();
        Some(Item {
            line: ident.span().start().line,
            is_type,
            is_error: is_type && (errors.contains(&name) || derives_error(of_item(item))),
            is_public: vis.is_some_and(|vis| matches!(vis, syn::Visibility::Public(_))),
            name,
        })
    };
    items.iter().filter_map(define).collect()
}

/// The name of an item, its visibility where it has one, and whether it is a type or a trait.
fn named(item: &syn::Item) -> Option<(&syn::Ident, Option<&syn::Visibility>, bool)> {
    match item {
        syn::Item::Const(item) => Some((&item.ident, Some(&item.vis), false)),
        syn::Item::Enum(item) => Some((&item.ident, Some(&item.vis), true)),
        syn::Item::Fn(item) => Some((&item.sig.ident, Some(&item.vis), false)),
        syn::Item::Macro(item) => item.ident.as_ref().map(|ident| (ident, None, false)),
        syn::Item::Static(item) => Some((&item.ident, Some(&item.vis), false)),
        syn::Item::Struct(item) => Some((&item.ident, Some(&item.vis), true)),
        syn::Item::Trait(item) => Some((&item.ident, Some(&item.vis), true)),
        syn::Item::TraitAlias(item) => Some((&item.ident, Some(&item.vis), true)),
        syn::Item::Type(item) => Some((&item.ident, Some(&item.vis), true)),
        syn::Item::Union(item) => Some((&item.ident, Some(&item.vis), true)),
        _ => None,
    }
}

/// The name of the type for which this item implements `Error`.
fn implements_error(item: &syn::Item) -> Option<String> {
    let syn::Item::Impl(item) = item else { return None };
    let (implemented, _) = item.trait_.as_ref()?;
    let syn::Type::Path(of) = &*item.self_ty else { return None };
    let is_error = implemented.segments.last()?.ident == "Error";
    is_error.then(|| Some(of.path.segments.last()?.ident.to_string())).flatten()
}
