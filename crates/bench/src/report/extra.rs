//! What is printed below the report under Stele's own name: the ends of the distribution, and what was used.

use super::Phase;

/// Lines, or nothing when there is nothing more to say.
pub(crate) fn render(phase: &Phase) -> String {
    if phase.requests == 0 {
        return String::new();
    }
    let ms = |percent: f64| number(phase.percentile(percent));
    let mut text = format!(
        "\nMore about {}:\n  Latency:\tp50 {} ms, p99 {} ms, p99.9 {} ms, p99.99 {} ms, slowest {} ms\n",
        phase.name,
        ms(50.0),
        ms(99.0),
        ms(99.9),
        ms(99.99),
        number(phase.slowest_ms),
    );
    if !phase.since_taken.is_empty() {
        let ms = |percent: f64| number(phase.percentile_since_taken(percent));
        text += &format!(
            "  From a free client:\tp50 {} ms, p99 {} ms, p99.9 {} ms (not from when requests were due)\n",
            ms(50.0),
            ms(99.0),
            ms(99.9),
        );
    }
    if phase.missed > 0 {
        text += &format!("  Missed:\t{} requests were due and not made before the end\n", phase.missed);
    }
    if let Some(own) = phase.client_cpu_us {
        text += &format!("  Generator:\t{} us of CPU a request\n", number(own));
    }
    if let Some(servers) = &phase.servers {
        let pids: Vec<String> = servers.processes.iter().map(u32::to_string).collect();
        let s = if pids.len() == 1 { "" } else { "es" };
        text += &format!(
            "  Servers:\t{} us of CPU a request, {} MB resident, {} MB at most (process{s} {})\n",
            number(servers.cpu_us),
            number(servers.resident_mb),
            number(servers.peak_mb),
            pids.join(", "),
        );
    }
    text
}

/// Three digits that count, and no exponents.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
