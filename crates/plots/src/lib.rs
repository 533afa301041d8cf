//! Plots and pages of measurements.
//!
//! A page is one HTML file that needs no other: tables, and plots as SVG. It is readable on windows of any width:
//! tables that are wider than the window scroll by themselves, plots stand side by side while there is room. The load
//! generator's report and the comparison of two systems are drawn by it, so they look alike. It knows neither: it is
//! given titles, numbers and names.

mod chart;
mod page;

pub use chart::{Chart, Scale, Series};
pub use page::Page;
