//! Types of values that flags have, each with its parser. None of them knows the flags.

pub(crate) mod cipher_suites;
mod compaction_policy;
pub(super) mod duration;
pub(super) mod feature_gates;
mod log_settings;
pub(super) mod scalar;
mod token_kind;

pub use compaction_policy::CompactionPolicy;
pub use feature_gates::{FeatureGate, FeatureGates, GateStage};
pub use log_settings::{LogFormat, LogLevel, LogOutput, LogRotation};
pub(super) use member::identity::url;
pub use token_kind::{JwtOptions, SignMethod, TokenKind};
pub use url::{Scheme, Url};
