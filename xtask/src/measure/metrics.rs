//! What a member tells about itself under `/metrics`, in Prometheus's text format.

/// Changes of leader that a member has seen since it started.
pub(crate) const LEADER_CHANGES: &str = "etcd_server_leader_changes_seen_total";

/// The value of a family without labels.
///
/// # Errors
/// The family is absent, or its value is not a number.
pub(crate) fn value(text: &str, family: &str) -> Result<f64, String> {
    let of_family = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(family)).then(|| words.next().and_then(|word| word.parse().ok())).flatten()
    };
    text.lines().find_map(of_family).ok_or_else(|| format!("the member has no metric {family}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_the_whole_name() {
        let text =
            "# HELP a_total Some help.\n# TYPE a_total counter\na_total_of_all 7\na_total 3\nb{x=\"y\"} 4\n";
        assert_eq!(value(text, "a_total"), Ok(3.0));
        assert!(value(text, "a").is_err());
        assert!(value(text, "b").is_err(), "it has labels");
        assert!(value("a_total many\n", "a_total").is_err());
    }
}
