//! Sizes and durations for people.

use std::time::Duration;

/// A size in decimal units, as etcdctl prints it: `20 kB`, `2.1 GB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let exponent = bytes.ilog10() as usize / 3;
    let value = (bytes as f64 / 1000f64.powi(exponent as i32) * 10.0 + 0.5).floor() / 10.0;
    if value < 10.0 {
        format!("{value:.1} {}", UNITS[exponent])
    } else {
        format!("{value:.0} {}", UNITS[exponent])
    }
}

/// A duration as Go prints it: `1.5ms`, `2m0.5s`.
pub fn duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let fraction = |unit: u128, name: &str| {
        let rest = format!("{:0width$}", nanoseconds % unit, width = unit.ilog10() as usize);
        let rest = rest.trim_end_matches('0');
        let dot = if rest.is_empty() || unit == 1 { "" } else { "." };
        format!("{}{dot}{}{name}", nanoseconds / unit, if unit == 1 { "" } else { rest })
    };
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => fraction(1, "ns"),
        1_000..1_000_000 => fraction(1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(1_000_000, "ms"),
        _ => {
            let seconds = duration.as_secs();
            let below = format!("{:09}", duration.subsec_nanos());
            let below = below.trim_end_matches('0');
            let dot = if below.is_empty() { "" } else { "." };
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}{dot}{below}s"),
                (0, _) => format!("{minutes}m{seconds}{dot}{below}s"),
                _ => format!("{hours}h{minutes}m{seconds}{dot}{below}s"),
            }
        }
    }
}
