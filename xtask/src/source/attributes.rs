//! What attributes say: that an item is a test, that a type is an error, which file a module is in.

/// Whether this is compiled for tests only: `#[test]`, `#[cfg(test)]`, or a `cfg(all(test, ...))`.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let asks_for_test = || {
            let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
            let condition: String = condition.unwrap_or_default().split_whitespace().collect();
            condition == "test" || condition.starts_with("all(test,")
        };
        attribute.path().is_ident("test") || (attribute.path().is_ident("cfg") && asks_for_test())
    })
}

/// Whether the attributes derive `Error`.
pub(super) fn derives_error(attributes: &[syn::Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        // A derive is a list of paths, or the compiler would refuse it.
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|segment| segment.ident == "Error");
            Ok(())
        });
    }
    found
}

/// The file that `#[path = "..."]` names.
pub(super) fn file_named_by(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(literal) = &pair.value else { return None };
    let syn::Lit::Str(path) = &literal.lit else { return None };
    Some(path.value())
}

/// The attributes of an item.
pub(super) fn of_item(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
