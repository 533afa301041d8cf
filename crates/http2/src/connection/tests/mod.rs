//! Frames that a client sends, and what the connection makes of them.
mod attacks;
mod ending;
mod memory;
mod model;
mod requests;
mod rig;
mod sending;
mod simulation;
