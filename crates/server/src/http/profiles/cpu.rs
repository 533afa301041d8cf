//! CPU profiles: a timer interrupts whichever thread uses the CPU, and its call stack is noted.

use std::time::Duration;

use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, Report};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::format::ProfileBuilder;

/// Samples in a second of CPU time; Go's.
const FREQUENCY_HZ: i32 = 100;

/// Libraries inside of which no stack is taken: their unwinding information is not safe to use in a signal handler.
const NOT_UNWOUND: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Takes a profile for so long, and returns it encoded.
///
/// # Errors
/// When another profile is being taken, or the system refuses a timer.
pub(super) async fn profile(length: Duration) -> Result<Vec<u8>, String> {
    // The first one reads the program's symbols, and each makes its tables: both take time.
    let starting = spawn_blocking(|| {
        let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY_HZ).blocklist(&NOT_UNWOUND);
        builder.build().map(|guard| RunningProfile(Some(guard))).map_err(|error| error.to_string())
    });
    let running = starting.await.map_err(|error| error.to_string())??;
    // Dropped with its client, this ends the profile.
    tokio::time::sleep(length).await;
    // To find the names of functions takes time.
    let encoding = spawn_blocking(move || running.encoded(length));
    encoding.await.map_err(|error| error.to_string())?
}

/// A profile that is being taken, until this is dropped. New tables are made at its end, which takes time, so no
/// thread that serves does it.
struct RunningProfile(Option<ProfilerGuard<'static>>);

impl RunningProfile {
    fn encoded(&self, length: Duration) -> Result<Vec<u8>, String> {
        let Some(guard) = &self.0 else { return Err("the profile has ended".to_owned()) };
        let report = guard.report().build().map_err(|error| error.to_string())?;
        encode(&report, length).map_err(|error| error.to_string())
    }
}

impl Drop for RunningProfile {
    fn drop(&mut self) {
        let guard = self.0.take();
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(guard))),
            Err(_) => drop(guard),
        }
    }
}

fn encode(report: &Report, length: Duration) -> std::io::Result<Vec<u8>> {
    let period_ns = 1_000_000_000 / i64::from(FREQUENCY_HZ);
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let mut builder = ProfileBuilder::new(&types, ("cpu", "nanoseconds"), period_ns);
    #[expect(clippy::iter_over_hash_type, reason = "samples have no order")]
    for (frames, count) in &report.data {
        let locations = locations(&mut builder, frames);
        let count = *count as i64;
        builder.sample(locations, vec![count, count * period_ns], Some(("thread", &frames.thread_name)));
    }
    builder.encode(length)
}

/// The locations of a stack, innermost first. A frame has several functions if some were inlined.
fn locations(builder: &mut ProfileBuilder, frames: &Frames) -> Vec<u64> {
    let mut locations = Vec::with_capacity(frames.frames.len());
    for frame in &frames.frames {
        let mut lines = Vec::with_capacity(frame.len());
        for symbol in frame {
            let function = builder.function(&symbol.name(), &symbol.filename());
            lines.push((function, i64::from(symbol.lineno())));
        }
        locations.push(builder.location(&lines));
    }
    locations
}
