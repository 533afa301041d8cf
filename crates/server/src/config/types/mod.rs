//! Types of values that flags have, each with its parser. None of them knows the flags.

mod compaction_policy;
pub(super) mod duration;
pub(super) mod feature_gates;
mod log_settings;
pub(super) mod scalar;
pub(super) mod url;

pub use compaction_policy::CompactionPolicy;
pub use feature_gates::{FeatureGate, FeatureGates, GateStage};
pub use log_settings::{LogFormat, LogLevel, LogOutput};
pub use url::{Scheme, Url};
