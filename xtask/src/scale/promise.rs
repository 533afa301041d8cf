//! Figures and what was promised about them.

use serde::Serialize;

use crate::measure::report::number;

/// What a figure shall be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Promise {
    AtMost(f64),
    AtLeast(f64),
}

impl Promise {
    fn is_kept(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

/// One figure of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RowFigure {
    pub(super) what: &'static str,
    pub(super) value: f64,
    /// Empty for counts and ratios.
    pub(super) unit: &'static str,
    pub(super) promise: Option<Promise>,
    pub(super) is_kept: Option<bool>,
}

impl RowFigure {
    /// A figure about which nothing is promised; it explains the others.
    pub(super) fn new(what: &'static str, value: f64, unit: &'static str) -> Self {
        Self { what, value, unit, promise: None, is_kept: None }
    }

    /// A figure that shall be `promise`.
    pub(super) fn promised(what: &'static str, value: f64, unit: &'static str, promise: Promise) -> Self {
        Self { what, value, unit, promise: Some(promise), is_kept: Some(promise.is_kept(value)) }
    }

    /// A figure that shall be `bound` at most.
    pub(super) fn at_most(what: &'static str, value: f64, unit: &'static str, bound: f64) -> Self {
        Self::promised(what, value, unit, Promise::AtMost(bound))
    }

    /// The columns of the table behind the row's name: what, measured, promised, ok.
    pub(super) fn cells(&self) -> Vec<String> {
        let promised = match self.promise {
            Some(Promise::AtMost(bound)) => format!("<= {}", self.text(bound)),
            Some(Promise::AtLeast(bound)) => format!(">= {}", self.text(bound)),
            None => String::new(),
        };
        let verdict = match self.is_kept {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        vec![self.what.to_owned(), self.text(self.value), promised, verdict.to_owned()]
    }

    fn text(&self, value: f64) -> String {
        let digits = if value.fract() == 0.0 { format!("{value:.0}") } else { number(value) };
        format!("{digits} {}", self.unit).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_includes_its_bound() {
        let kept = |value, promise| RowFigure::promised("", value, "", promise).is_kept;
        assert_eq!(kept(2.1, Promise::AtMost(2.1)), Some(true));
        assert_eq!(kept(2.11, Promise::AtMost(2.1)), Some(false));
        assert_eq!(kept(0.85, Promise::AtLeast(0.85)), Some(true));
        assert_eq!(kept(0.84, Promise::AtLeast(0.85)), Some(false));
        assert_eq!(kept(f64::NAN, Promise::AtMost(1.0)), Some(false), "no figure keeps no promise");
        assert_eq!(RowFigure::new("", 1.0, "").is_kept, None);
    }

    #[test]
    fn cells_name_the_unit_and_the_bound() {
        let cells = |measured: RowFigure| measured.cells();
        assert_eq!(cells(RowFigure::at_most("a", 4.513, "ms", 1.0)), ["a", "4.51 ms", "<= 1 ms", "NO"]);
        assert_eq!(
            cells(RowFigure::promised("b", 3.0, "", Promise::AtLeast(0.5))),
            ["b", "3", ">= 0.500", "yes"]
        );
        assert_eq!(cells(RowFigure::new("c", 944.0, "MB")), ["c", "944 MB", "", ""]);
    }
}
