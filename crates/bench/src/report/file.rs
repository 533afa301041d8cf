//! Files: the result as JSON, and the report for perf-dash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{FORMAT, Phase, RunReport};

/// Writes a result.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_json(path: &Path, result: &RunReport) -> Result<(), String> {
    let text = serde_json::to_string_pretty(result).map_err(|error| format!("cannot write JSON: {error}"))?;
    write(path, &text)
}

/// Writes a text.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Reads a result that [`write_json`] wrote.
///
/// # Errors
/// The file cannot be read, is not a result, or one of another version.
pub(crate) fn read(path: &Path) -> Result<RunReport, String> {
    let shown = path.display();
    let text = fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let no_result = |error: String| format!("{shown} is no result that --json wrote: {error}");
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| no_result(error.to_string()))?;
    check_numbers(&value).map_err(no_result)?;
    let result: RunReport = serde_json::from_value(value).map_err(|error| no_result(error.to_string()))?;
    if result.format != FORMAT {
        return Err(format!("{shown} has format {}; this release reads {FORMAT}", result.format));
    }
    Ok(result)
}

/// The largest number in a result: more nanoseconds than all requests of one second can take.
const MAX_NUMBER: f64 = 1e19;

/// Refuses numbers that cannot be drawn.
fn check_numbers(value: &serde_json::Value) -> Result<(), String> {
    match value {
        serde_json::Value::Number(number) => match number.as_f64() {
            Some(size) if size.abs() <= MAX_NUMBER => Ok(()),
            _ => Err(format!("{number} is beyond {MAX_NUMBER:e}")),
        },
        serde_json::Value::Array(values) => values.iter().try_for_each(check_numbers),
        serde_json::Value::Object(fields) => fields.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

/// Writes the report that Kubernetes' perf-dash reads, where `benchmark` writes it, and says so.
pub(crate) fn write_perfdash(phase: &Phase, operation: &str) -> String {
    let rounded = |percent: f64| (phase.percentile(percent) * 1e4).round() / 1e4;
    let data = json!({ "Perc50": rounded(50.0), "Perc90": rounded(90.0), "Perc99": rounded(99.0) });
    let item = json!({ "data": data, "labels": { "Operation": operation.to_uppercase() }, "unit": "ms" });
    let report = json!({ "version": "v1", "dataItems": [item] });
    let folder = std::env::var("ARTIFACTS").ok().filter(|folder| !folder.is_empty());
    let folder = PathBuf::from(folder.unwrap_or_else(|| "./_artifacts".to_owned()));
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let path = folder.join(format!("EtcdAPI_benchmark_{operation}_{}.json", utc(seconds)));
    if let Err(error) = fs::create_dir_all(&folder) {
        crate::print::say(&format!("Error creating artifacts directory: {error}\n"));
    }
    match fs::write(&path, format!("{report:#}")) {
        Ok(()) => format!("Successfully created a JSON perf report at {}", path.display()),
        Err(error) => format!("Error writing to file: {error}"),
    }
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, so that the day that some years lack is their last.
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = cycle * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_result_is_read_back_and_another_file_is_refused_in_one_line() {
        let folder = std::env::temp_dir().join(format!("bench-result-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.json");
        let phase =
            Phase { name: "put".to_owned(), requests: 3, percentiles: vec![[99.0, 1.5]], ..Phase::default() };
        let result = RunReport { format: FORMAT, phases: vec![phase], ..RunReport::default() };
        write_json(&path, &result).expect("written");
        let phases = read(&path).expect("read").phases;
        assert_eq!((phases[0].requests, phases[0].percentile(99.0)), (3, 1.5));
        for foreign in [b"{}".as_slice(), b"", b"\xff\xfe\x00binary"] {
            fs::write(&path, foreign).expect("written");
            let error = read(&path).expect_err("no result");
            assert!(error.contains("a.json is no result") && !error.contains('\n'), "{error}");
        }
        for number in ["1e308", "-1e300"] {
            let text = format!(r#"{{"format": 1, "phases": [{{"percentiles": [[99.0, {number}]]}}]}}"#);
            fs::write(&path, text).expect("written");
            let error = read(&path).expect_err("a number that cannot be drawn");
            assert!(error.contains("is beyond 1e19"), "{error}");
        }
        fs::remove_dir_all(folder).expect("removed");
    }
}
