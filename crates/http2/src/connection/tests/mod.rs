//! Frames that a client sends, and what the connection makes of them.
mod attacks;
mod ending;
mod heads;
mod memory;
mod model;
mod requests;
pub(super) mod rig;
mod sending;
mod simulation;
