//! Rules about the code within a file, read from its syntax tree.

use syn::visit::{self, Visit};

use super::file::{File, Finding};
use super::layout::MAX_INLINE_TEST_LINES;

/// Checks a Rust file. One that cannot be parsed is the compiler's to refuse.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let Ok(parsed) = syn::parse_file(&file.text) else { return Vec::new() };
    let mut visitor = Visitor { file, findings: Vec::new() };
    visitor.visit_file(&parsed);
    visitor.findings
}

struct Visitor<'a> {
    file: &'a File,
    findings: Vec<Finding>,
}

impl Visitor<'_> {
    /// Limits are called `MAX_X` or `MIN_X`, with the unit last: `MAX_FRAME_BYTES`.
    fn check_constant(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        let limit =
            ["MAX", "MIN"].into_iter().find(|limit| name.split('_').skip(1).any(|word| word == *limit));
        if let Some(limit) = limit {
            let what = format!("{name}: a limit is called {limit}_X, with the unit last");
            self.findings.push(Finding::new(self.file, ident.span().start().line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.check_constant(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.check_constant(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.check_constant(&item.ident);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.check_constant(&item.ident);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident == "tests"
            && let Some((braces, _)) = &module.content
        {
            let (first, last) = (module.mod_token.span.start().line, braces.span.close().end().line);
            let lines = last - first + 1;
            if lines > MAX_INLINE_TEST_LINES && !self.file.is_test() {
                let what = format!(
                    "{lines} lines of tests, at most {MAX_INLINE_TEST_LINES} stand in the file they test: move them \
                     to tests.rs of the module's folder"
                );
                self.findings.push(Finding::new(self.file, first, what));
            }
        }
        visit::visit_item_mod(self, module);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = File { path: "crates/log/src/a.rs".to_owned(), text: text.to_owned() };
        check(&file).into_iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn limits_begin_with_max_or_min() {
        let wrong = found(
            "const FRAME_MAX: u8 = 1;\nimpl A { const B_MIN_BYTES: u8 = 1; }\ntrait C { const D_MAX: u8; }\n\
             fn f() {\n    static E_MAX: u8 = 1;\n}",
        );
        let lines: Vec<&str> = wrong.iter().filter_map(|what| what.split(':').next()).collect();
        assert_eq!(lines, ["1", "2", "3", "5"]);
        assert!(wrong[1].contains("a limit is called MIN_X"), "{wrong:?}");
        let right = "const MAX_FRAME_BYTES: u8 = 1; const MAXIMUM: u8 = u8::MAX; const ALL: u32 = IOV_MAX;";
        assert_eq!(found(right), Vec::<String>::new());
    }

    #[test]
    fn long_tests_have_a_file_of_their_own() {
        let tests = |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}", "\n".repeat(lines - 2));
        assert_eq!(found(&tests(100)), Vec::<String>::new());
        assert!(found(&tests(101))[0].starts_with("2: 101 lines of tests, at most 100"));
        assert_eq!(found("#[cfg(test)]\nmod tests;"), Vec::<String>::new());
    }
}
