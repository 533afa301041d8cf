//! The log as the raft library sees it: terms of all entries, recent entries, and requests for what is only on disk.

mod fetched;
mod terms;
mod view;

pub use fetched::{Fetch, MAX_FETCH_BYTES};
pub(crate) use terms::Terms;
pub(crate) use view::LogView;
pub use view::MAX_RECENT_BYTES;
