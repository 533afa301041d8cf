//! Whether a table has the rows that it must have, asked by the compiler.
//!
//! `==` for strings and iterators are not for constants yet, so this is written with loops over bytes.

/// Whether `table` has a row for each name. The first column has the names.
pub(super) const fn have_all<A: Copy, B: Copy>(table: &[(&str, A, B)], mut names: &[&str]) -> bool {
    while let [name, rest @ ..] = names {
        if !has(table, name) {
            return false;
        }
        names = rest;
    }
    true
}

const fn has<A: Copy, B: Copy>(mut table: &[(&str, A, B)], name: &str) -> bool {
    while let [(first, ..), rest @ ..] = table {
        if is_equal(first.as_bytes(), name.as_bytes()) {
            return true;
        }
        table = rest;
    }
    false
}

const fn is_equal(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([a, ones @ ..], [b, others @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (ones, others);
    }
    one.is_empty() && other.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_needs_a_row() {
        let table = [("ab", (), ()), ("abc", (), ())];
        assert!(have_all(&table, &[]) && have_all(&table, &["abc", "ab"]));
        for missing in ["a", "abd", "abcd", ""] {
            assert!(!have_all(&table, &["ab", missing]), "{missing}");
        }
    }
}
