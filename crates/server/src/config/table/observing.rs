//! Sections "Auth", "Profiling and Monitoring" and "Logging".

use super::flag::{Flag, Section, count, duration, list, switch, text, urls};

const fn auth(flag: Flag) -> Flag {
    flag.section(Section::Auth)
}

const fn profiling(flag: Flag) -> Flag {
    flag.section(Section::Profiling)
}

const fn logging(flag: Flag) -> Flag {
    flag.section(Section::Logging)
}

pub(super) const AUTH_AND_PROFILING: &[Flag] = &[
    auth(text("auth-token", "simple", "Kind of tokens: 'simple', or 'jwt' with its options.")),
    auth(count("bcrypt-cost", "10", "Cost of hashing a password with bcrypt, between 4 and 31.")),
    auth(count("auth-token-ttl", "300", "Seconds a simple token stays good without being used.")),
    profiling(switch("enable-pprof", "false", "Serve profiles for 'go tool pprof' below /debug/pprof/.")),
    profiling(text("metrics", "basic", "'extensive' adds a histogram of the time each gRPC takes.")),
    profiling(urls("listen-metrics-urls", "", "Where else to serve /metrics and the health checks.")),
];

pub(super) const LOGGING: &[Flag] = &[
    logging(text("logger", "zap", "Form of the log; only 'zap'.")),
    logging(list(
        "log-outputs",
        "default",
        "Where to log: 'default' or 'stderr', 'stdout', 'systemd/journal', or paths of files; several at once.",
    )),
    logging(text("log-level", "info", "Least severity to log: debug, info, warn, error, panic or fatal.")),
    logging(text(
        "log-format",
        "json",
        "'json' or 'console'. Unless it is set, a terminal has columns with colours.",
    )),
    logging(switch("enable-log-rotation", "false", "Start a new log file when the old one is large.")),
    logging(text(
        "log-rotation-config-json",
        r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#,
        "With --enable-log-rotation: when to start a new log file, and what becomes of old ones.",
    )),
    logging(duration(
        "warning-unary-request-duration",
        "300ms",
        "A request that takes longer is logged as a warning.",
    )),
];
