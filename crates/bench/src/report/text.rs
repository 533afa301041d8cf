//! The report in the layout of etcd's `benchmark`, which scripts read.

use std::fmt::Write;
use std::time::Duration;

use super::Phase;

/// The percentiles that `benchmark` prints.
const PRINTED: [f64; 8] = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Width of the longest bar.
const BAR_WIDTH: u64 = 40;

/// How a report is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// All digits instead of four behind the point: `--precise`.
    pub(crate) precise: bool,
    /// A line for each second: `--sample`.
    pub(crate) samples: bool,
}

impl Layout {
    fn number(self, value: f64) -> String {
        if self.precise { go_g(value) } else { format!("{value:.4}") }
    }

    fn seconds(self, ms: f64) -> String {
        format!("{} secs", self.number(ms / 1e3))
    }
}

/// The report of a phase: it begins with an empty line, as `benchmark`'s does.
pub(crate) fn render(phase: &Phase, layout: Layout) -> String {
    let mut text = String::new();
    if phase.requests > 0 {
        let line = |name: &str, ms: f64| format!("  {name}:\t{}.\n", layout.seconds(ms));
        text += "\nSummary:\n";
        text += &line("Total", phase.seconds * 1e3);
        text += &line("Slowest", phase.slowest_ms);
        text += &line("Fastest", phase.fastest_ms);
        text += &line("Average", phase.average_ms);
        text += &line("Stddev", phase.stddev_ms);
        text += &format!("  Requests/sec:\t{}\n", layout.number(phase.per_second));
        histogram(phase, layout, &mut text);
        text += "\nLatency distribution:\n";
        for percent in &PRINTED[..reached(phase.requests)] {
            let ms = phase.percentile(*percent);
            if ms > 0.0 {
                text += &format!("  {percent}% in {}.\n", layout.seconds(ms));
            }
        }
        if layout.samples {
            samples(phase, &mut text);
        }
    }
    if !phase.errors.is_empty() {
        text += "\nError distribution:\n";
        for (error, count) in &phase.errors {
            text += &format!("  [{count}]\t{error}\n");
        }
    }
    text
}

/// How many of the percentiles `benchmark` prints for a number of requests: it goes through their latencies in order,
/// and takes each for at most one percentile.
fn reached(requests: u64) -> usize {
    let mut reached = 0;
    for request in 0..requests {
        let percent = request as f64 * 100.0 / requests as f64;
        match PRINTED.get(reached) {
            Some(next) if percent >= *next => reached += 1,
            Some(_) => {}
            None => break,
        }
    }
    reached
}

fn histogram(phase: &Phase, layout: Layout, text: &mut String) {
    *text += "\nResponse time histogram:\n";
    let most = phase.histogram.iter().map(|(_, count)| *count).max().unwrap_or(0);
    for (bound_ms, count) in &phase.histogram {
        let width = (count * BAR_WIDTH).checked_div(most).unwrap_or(0);
        let bar = "∎".repeat(width as usize);
        *text += &format!("  {} [{count}]\t|{bar}\n", layout.number(bound_ms / 1e3));
    }
}

fn samples(phase: &Phase, text: &mut String) {
    *text += "\nSample in one second (unix latency throughput):\n";
    *text += "UNIX-SECOND,MIN-LATENCY-MS,AVG-LATENCY-MS,MAX-LATENCY-MS,AVG-THROUGHPUT\n";
    let ends = phase.unix_seconds.keys().next().zip(phase.unix_seconds.keys().next_back());
    let Some((first, last)) = ends else { return };
    for second in *first..=*last {
        let point = phase.unix_seconds.get(&second).cloned().unwrap_or_default();
        let average = point.total_ns.checked_div(point.requests).unwrap_or(0);
        let shown = [point.fastest_ns, average, point.slowest_ns].map(go_duration);
        *text += &format!("{second},{},{}\n", shown.join(","), point.requests);
    }
    *text += "\n";
}

/// A number as Go prints it with `%g`: the fewest digits that tell it, with an exponent below 1e-4 and from 1e+06 on.
fn go_g(value: f64) -> String {
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

/// A duration as Go prints it: `1.5ms`, `1m2.5s`, `0s`.
pub(crate) fn go_duration(nanoseconds: u64) -> String {
    let time = Duration::from_nanos(nanoseconds);
    match nanoseconds {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{}ms", nanoseconds as f64 / 1e6),
        _ => {
            let (minutes, rest) = (time.as_secs() / 60, nanoseconds % 60_000_000_000);
            let mut text = String::new();
            if minutes >= 60 {
                let _ = write!(text, "{}h", minutes / 60);
            }
            if minutes > 0 {
                let _ = write!(text, "{}m", minutes % 60);
            }
            text + &format!("{}s", rest as f64 / 1e9)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Recorder;

    #[test]
    fn numbers_and_durations_are_written_as_go_writes_them() {
        let shown = [0.0, 0.00012, 0.000_012, 20_000.5, 1_234_567.5].map(go_g);
        assert_eq!(shown, ["0", "0.00012", "1.2e-05", "20000.5", "1.2345675e+06"]);
        let shown = [0, 15, 1_500, 1_500_000, 1_500_000_000, 3_723_000_000_000].map(go_duration);
        assert_eq!(shown, ["0s", "15ns", "1.5µs", "1.5ms", "1.5s", "1h2m3s"]);
    }

    #[test]
    fn few_requests_have_few_percentiles() {
        // As etcd's loop counts them.
        assert_eq!([0, 1, 2, 3, 10, 50, 100, 1_000, 1_000_000].map(reached), [0, 0, 1, 2, 5, 6, 7, 8, 8]);
    }

    #[test]
    fn the_report_has_the_layout_of_benchmark() {
        let recorder = Recorder::start(false);
        (1..=100).for_each(|ms| recorder.add_latency(Duration::from_millis(ms)));
        recorder.add(std::time::Instant::now(), &Err::<(), _>("etcdserver: too many requests"));
        let mut phase = recorder.finish("put");
        (phase.seconds, phase.per_second) = (0.5, 200.0);
        let text = render(&phase, Layout { precise: false, samples: false });
        let expected = "\nSummary:\n  Total:\t0.5000 secs.\n  Slowest:\t0.1000 secs.\n  Fastest:\t0.0010 secs.\n  \
            Average:\t0.0505 secs.\n  Stddev:\t0.0289 secs.\n  Requests/sec:\t200.0000\n\n\
            Response time histogram:\n  0.0010 [1]\t|∎∎∎∎\n  0.0109 [9]\t|∎∎∎∎";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("  0.1000 [10]\t|∎∎∎∎∎∎∎∎"), "{text}");
        assert!(
            text.contains("\nLatency distribution:\n  10% in 0.0100 secs.\n  25% in 0.0250 secs.\n"),
            "{text}"
        );
        assert!(text.ends_with("\nError distribution:\n  [1]\tetcdserver: too many requests\n"), "{text}");
    }
}
