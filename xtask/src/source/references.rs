//! The names that a module takes from elsewhere: its `use` declarations, and the paths in its code.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::attributes::{is_test, of_item};

/// One leaf of a `use` declaration.
pub(crate) struct Import {
    /// The whole path, without the last part of a glob.
    pub(crate) path: Vec<String>,
    /// The name it has here; `None` for a glob and for `as _`.
    pub(crate) name: Option<String>,
    pub(crate) is_glob: bool,
    /// Whether others may use it from here.
    pub(crate) is_reexport: bool,
    /// Whether the whole crate's users may use it from here.
    pub(crate) is_public: bool,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// A path in code.
pub(crate) struct Mention {
    pub(crate) path: Vec<String>,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// What the items of a module refer to, in the order of the source.
#[derive(Default)]
pub(super) struct References {
    pub(super) imports: Vec<Import>,
    pub(super) mentions: Vec<Mention>,
}

impl References {
    /// Searches `items`, apart from tests within them.
    pub(super) fn of(items: &[&syn::Item]) -> Self {
        let mut found = Self::default();
        items.iter().for_each(|item| found.visit_item(item));
        found
    }

    /// Notes a path. One name in lower case is a variable unless it is called, so only a call is noted.
    fn mention(&mut self, path: Vec<String>, line: usize, is_called: bool) {
        let is_type = || path[0].starts_with(char::is_uppercase);
        if path[0] != "Self" && (path.len() > 1 || is_called || is_type()) {
            self.mentions.push(Mention { path, line });
        }
    }

    fn mention_path(&mut self, path: &syn::Path, is_called: bool) {
        if path.leading_colon.is_none() && !path.segments.is_empty() {
            let line = path.segments[0].ident.span().start().line;
            let names = path.segments.iter().map(|segment| segment.ident.to_string());
            self.mention(names.collect(), line, is_called);
        }
    }

    /// Notes the paths in the tokens of a macro: names joined by `::`, apart from methods, lifetimes and `$crate`.
    fn mention_tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while index < trees.len() {
            match &trees[index] {
                TokenTree::Group(group) => self.mention_tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let begins = !continues(&trees[..index]);
                    let mut path = vec![first.to_string()];
                    while let Some(TokenTree::Ident(next)) = trees.get(index + 3)
                        && trees[index + 1..index + 3].iter().all(|tree| is_punct(tree, ':'))
                    {
                        path.push(next.to_string());
                        index += 3;
                    }
                    let next = trees.get(index + 1);
                    let is_called =
                        next.is_some_and(|next| matches!(next, TokenTree::Group(_)) || is_punct(next, '!'));
                    if begins {
                        self.mention(path, first.span().start().line, is_called);
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            index += 1;
        }
    }

    fn import(&mut self, prefix: &[String], tree: &syn::UseTree, shared: Shared) {
        let with = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(tree) => self.import(&with(&tree.ident), &tree.tree, shared),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(prefix, tree, shared));
            }
            syn::UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.imports.push(shared.import(prefix.to_vec(), None, true, line));
            }
            syn::UseTree::Name(leaf) => {
                let path = if leaf.ident == "self" { prefix.to_vec() } else { with(&leaf.ident) };
                let name = path.last().cloned();
                self.imports.push(shared.import(path, name, false, leaf.ident.span().start().line));
            }
            syn::UseTree::Rename(leaf) => {
                let path = if leaf.ident == "self" { prefix.to_vec() } else { with(&leaf.ident) };
                let name = Some(leaf.rename.to_string()).filter(|name| name != "_");
                self.imports.push(shared.import(path, name, false, leaf.ident.span().start().line));
            }
        }
    }
}

/// Whether a name after these tokens is a method, a lifetime, or the rest of a path that began elsewhere.
fn continues(before: &[TokenTree]) -> bool {
    let last =
        |back: usize, sign: char| before.iter().nth_back(back).is_some_and(|tree| is_punct(tree, sign));
    let is_method = last(0, '.') && !last(1, '.');
    is_method || last(0, '$') || last(0, '\'') || (last(0, ':') && last(1, ':'))
}

fn is_punct(tree: &TokenTree, sign: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Who may use an import from its module.
#[derive(Clone, Copy)]
struct Shared {
    is_reexport: bool,
    is_public: bool,
}

impl Shared {
    fn import(self, path: Vec<String>, name: Option<String>, is_glob: bool, line: usize) -> Import {
        let Self { is_reexport, is_public } = self;
        Import { path, name, is_glob, is_reexport, is_public, line }
    }
}

impl<'ast> Visit<'ast> for References {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(of_item(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    /// Also those within functions, as if they stood beside the function.
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if item.leading_colon.is_none() {
            let shared = Shared {
                is_reexport: !matches!(item.vis, syn::Visibility::Inherited),
                is_public: matches!(item.vis, syn::Visibility::Public(_)),
            };
            self.import(&[], &item.tree, shared);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention_path(path, false);
        visit::visit_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(function) = &*call.func {
            self.mention_path(&function.path, true);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.mention_path(&called.path, true);
        self.mention_tokens(called.tokens.clone());
    }

    /// `pub(in path)` names a module and takes nothing from it.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
