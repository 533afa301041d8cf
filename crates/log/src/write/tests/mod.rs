//! Planning, by itself.

mod planner;
