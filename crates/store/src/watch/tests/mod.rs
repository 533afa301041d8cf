//! Tests of the watch hub: scripts of what etcd answers, and a model test against the plain list of events.
mod bounds;
mod client;
mod encoding;
mod handover;
mod matching;
mod model;
mod requests;
mod slices;
mod world;
