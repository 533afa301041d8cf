//! Of which trace a call is a part: the W3C headers `traceparent` and `tracestate`, and the decision whether its spans
//! are exported.
//!
//! ```text
//! traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01     the caller exports: this call is a part of
//! it traceparent: 00-...-00                                                   it does not: nor does this call none, or
//! one that breaks the rules                                       a trace of its own, if it is sampled
//! ```

/// Longest `tracestate` that is passed on; the number of the W3C's recommendation.
const MAX_TRACE_STATE_BYTES: usize = 512;

/// Characters of a `traceparent`.
const PARENT_BYTES: usize = 55;

/// All of a million.
pub(super) const MAX_PER_MILLION: u32 = 1_000_000;

/// A trace, and the span of the caller in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceContext {
    pub(super) trace_id: u128,
    /// The caller's span, if the caller has one.
    pub(super) parent: Option<u64>,
    /// What other tracers say of the trace, passed on unread.
    pub(super) state: String,
}

/// What a `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TraceParent {
    trace_id: u128,
    span_id: u64,
    is_sampled: bool,
}

/// Decides which calls begin a trace. As in other tracers the id of the trace decides, so that all of them agree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampler {
    /// Traces whose id, as 63 bits, is below it are sampled.
    bound: u64,
}

impl Sampler {
    /// Samples so many traces of a million.
    pub(super) fn per_million(rate: u32) -> Sampler {
        let rate = u128::from(rate.min(MAX_PER_MILLION));
        Sampler { bound: ((rate << 63) / u128::from(MAX_PER_MILLION)) as u64 }
    }

    fn samples(self, trace_id: u128) -> bool {
        (trace_id as u64) >> 1 < self.bound
    }

    /// The trace that a call with these headers is a part of; `None` if its spans are not exported.
    pub(super) fn decide(self, parent: Option<&[u8]>, state: Option<&[u8]>) -> Option<TraceContext> {
        if let Some(parent) = parent.and_then(parse) {
            return parent.is_sampled.then(|| TraceContext {
                trace_id: parent.trace_id,
                parent: Some(parent.span_id),
                state: state.and_then(trace_state).unwrap_or_default(),
            });
        }
        if self.bound == 0 {
            return None;
        }
        let trace_id = fastrand::u128(1..);
        self.samples(trace_id).then(|| TraceContext { trace_id, parent: None, state: String::new() })
    }
}

/// The id of a new span.
pub(super) fn new_span_id() -> u64 {
    fastrand::u64(1..)
}

/// Reads a `traceparent`, by the rules of its version 0; of later versions the same fields count.
fn parse(text: &[u8]) -> Option<TraceParent> {
    let text = str::from_utf8(text).ok()?;
    let version = hex(text.get(..2)?)?;
    let ends_well = match version {
        0 => text.len() == PARENT_BYTES,
        0xff => false,
        _ => text.len() == PARENT_BYTES || text.as_bytes().get(PARENT_BYTES) == Some(&b'-'),
    };
    let mut parts = text.get(..PARENT_BYTES)?.split('-').skip(1);
    let (trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let has_lengths = (trace_id.len(), span_id.len(), flags.len()) == (32, 16, 2);
    let (trace_id, span_id, flags) = (hex(trace_id)?, hex(span_id)? as u64, hex(flags)?);
    let is_valid = ends_well && has_lengths && trace_id != 0 && span_id != 0 && parts.next().is_none();
    is_valid.then_some(TraceParent { trace_id, span_id, is_sampled: flags & 1 == 1 })
}

/// A number in lower-case hexadecimal digits.
fn hex(text: &str) -> Option<u128> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if are_digits { u128::from_str_radix(text, 16).ok() } else { None }
}

fn trace_state(text: &[u8]) -> Option<String> {
    let is_short = text.len() <= MAX_TRACE_STATE_BYTES && text.is_ascii();
    str::from_utf8(text).ok().filter(|_| is_short).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    //! Headers, good and bad, and the rate.
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_callers_decision_is_followed() {
        for rate in [0, MAX_PER_MILLION] {
            let sampler = Sampler::per_million(rate);
            let context = sampler.decide(Some(PARENT.as_bytes()), Some(b"a=1,b=2")).expect("sampled");
            assert_eq!(context.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
            assert_eq!((context.parent, context.state.as_str()), (Some(0xb7ad_6b71_6920_3331), "a=1,b=2"));
            let unsampled = PARENT.replace("-01", "-00");
            assert_eq!(sampler.decide(Some(unsampled.as_bytes()), None), None);
        }
    }

    #[test]
    fn a_bad_header_is_no_header() {
        let bad = [
            "".to_owned(),
            PARENT.to_uppercase(),
            PARENT.replace("00-0a", "ff-0a"),
            format!("{PARENT}-more"),
            PARENT.replace("b7ad6b7169203331", "0000000000000000"),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            PARENT.replace("0af7651916cd43dd8448eb211c80319c-", "0af7651916cd43dd8448eb211c80319-c"),
            "00-äf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        ];
        for bad in bad {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
            assert_eq!(Sampler::per_million(0).decide(Some(bad.as_bytes()), None), None);
        }
        let later = format!("{}-more", PARENT.replacen("00", "01", 1));
        assert!(parse(later.as_bytes()).is_some(), "a later version may say more");
    }

    #[test]
    fn the_rate_is_that_of_traces() {
        let sampled =
            |rate| (0..10_000).filter(|_| Sampler::per_million(rate).decide(None, None).is_some()).count();
        assert_eq!((sampled(0), sampled(MAX_PER_MILLION)), (0, 10_000));
        // 2,500 are expected, with a standard deviation of 43.
        let quarter = sampled(250_000);
        assert!((2_100..2_900).contains(&quarter), "{quarter}");
    }

    #[test]
    fn a_long_state_is_not_passed_on() {
        let state = |bytes: usize| {
            let sampler = Sampler::per_million(0);
            sampler
                .decide(Some(PARENT.as_bytes()), Some("s".repeat(bytes).as_bytes()))
                .expect("sampled")
                .state
        };
        assert_eq!((state(512).len(), state(513).as_str()), (512, ""));
    }
}
