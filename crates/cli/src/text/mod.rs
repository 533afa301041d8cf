//! Texts as Go prints them: quoted strings, JSON, sizes, durations, tables; and pages as wide as a terminal.
//!
//! What etcdctl prints is read by scripts, and most of it is made by Go's libraries; here is what they make.

pub mod human;
pub mod quote;
pub mod table;
pub mod wrap;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::quote::{json_quoted, quoted, unquote, words};
    use super::{human, table};

    #[test]
    fn quotes_escape_what_does_not_print() {
        assert_eq!(quoted("a\"\\\n\u{7}\u{1}é\u{2028}'".as_bytes()), "\"a\\\"\\\\\\n\\a\\x01é\\u2028'\"");
        assert_eq!(quoted(b"\xff\xc3"), "\"\\xff\\xc3\"");
    }

    #[test]
    fn what_is_quoted_can_be_read_again() {
        for bytes in [&b"a b\n\"\\"[..], b"\x00\xff\x7f", "é\u{1f600}\u{2028}".as_bytes(), b""] {
            let text = quoted(bytes);
            assert_eq!(unquote(text.as_bytes()), Some((bytes.to_vec(), &b""[..])), "{text}");
        }
        assert_eq!(unquote(b"\"a\" rest"), Some((b"a".to_vec(), &b" rest"[..])));
        assert_eq!(unquote(b"\"open"), None);
        assert_eq!(unquote(b"\"\\q\""), None);
    }

    #[test]
    fn a_line_is_split_at_spaces_outside_of_quotes() {
        let split = words(br#"put  'a b' "c\n" d"#).expect("it is right");
        assert_eq!(split, [b"put".to_vec(), b"a b".to_vec(), b"c\n".to_vec(), b"d".to_vec()]);
        assert!(words(br#""\q""#).is_err());
    }

    #[test]
    fn json_has_gos_escapes() {
        let mut text = String::new();
        json_quoted("<a&\"\n\u{2028}", &mut text);
        assert_eq!(text, "\"\\u003ca\\u0026\\\"\\n\\u2028\"");
    }

    #[test]
    fn sizes_and_durations_read_well() {
        let sizes = [(0, "0 B"), (9, "9 B"), (999, "999 B"), (20_480, "20 kB"), (2_147_483_648, "2.1 GB")];
        for (bytes, text) in sizes {
            assert_eq!(human::bytes(bytes), text);
        }
        let durations = [(0, "0s"), (150, "150ns"), (2_223_249, "2.223249ms"), (1_500_000_000, "1.5s")];
        for (nanoseconds, text) in durations {
            assert_eq!(human::duration(Duration::from_nanos(nanoseconds)), text);
        }
        assert_eq!(human::duration(Duration::from_millis(3_661_500)), "1h1m1.5s");
    }

    #[test]
    fn a_table_is_as_wide_as_its_cells() {
        let drawn = table::draw(&["a_b", "long"], &[vec!["wide cell".to_owned(), "1".to_owned()]]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[1], "│    A B    │ LONG │");
        assert_eq!(lines[3], "│ wide cell │    1 │");
    }
}
