//! The format of profiles: `profile.proto` of <https://github.com/google/pprof>, compressed with gzip.
//!
//! Texts are numbers in a table of strings; functions and locations are numbered from 1, and each is there once.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<ProfileLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ProfileLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// A profile that is being put together.
pub(super) struct ProfileBuilder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<Vec<(u64, i64)>, u64>,
}

impl ProfileBuilder {
    /// A profile whose samples have values of these types, each with its unit, and are taken each `period` of a type.
    pub(super) fn new(types: &[(&str, &str)], period_type: (&str, &str), period: i64) -> ProfileBuilder {
        let mut this = ProfileBuilder {
            profile: Profile { period, ..Profile::default() },
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        };
        // The first text must be empty.
        this.text("");
        this.profile.sample_type = types.iter().map(|(kind, unit)| this.value_type(kind, unit)).collect();
        this.profile.period_type = Some(this.value_type(period_type.0, period_type.1));
        this
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    /// The number of a function.
    pub(super) fn function(&mut self, name: &str, filename: &str) -> u64 {
        let (name, filename) = (self.text(name), self.text(filename));
        let functions = &mut self.profile.function;
        *self.functions.entry((name, filename)).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            functions.push(Function { id, name, system_name: name, filename });
            id
        })
    }

    /// The number of a place in functions: an inlined one, then the one it was inlined into, each with its line.
    pub(super) fn location(&mut self, lines: &[(u64, i64)]) -> u64 {
        let locations = &mut self.profile.location;
        *self.locations.entry(lines.to_vec()).or_insert_with(|| {
            let id = locations.len() as u64 + 1;
            let line =
                lines.iter().map(|(function_id, line)| Line { function_id: *function_id, line: *line });
            locations.push(ProfileLocation { id, line: line.collect() });
            id
        })
    }

    /// Adds a sample: its locations, innermost first, a value for each type, and a label.
    pub(super) fn sample(&mut self, location_id: Vec<u64>, value: Vec<i64>, label: Option<(&str, &str)>) {
        let label = label.map(|(key, text)| Label { key: self.text(key), text: self.text(text) });
        self.profile.sample.push(Sample { location_id, value, label: label.into_iter().collect() });
    }

    /// The encoded profile, which took so long and ends now.
    ///
    /// # Errors
    /// None that can happen in memory.
    pub(super) fn encode(mut self, took: Duration) -> io::Result<Vec<u8>> {
        let nanoseconds = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.profile.time_nanos = nanoseconds(now.saturating_sub(took));
        self.profile.duration_nanos = nanoseconds(took);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&self.profile.encode_to_vec())?;
        encoder.finish()
    }
}

#[cfg(test)]
mod tests {
    //! What is encoded is there once, and refers to what exists.
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn texts_functions_and_locations_are_there_once() {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")], ("cpu", "nanoseconds"), 10);
        for name in ["put", "get", "put"] {
            let function = builder.function(name, "kv.rs");
            let location = builder.location(&[(function, 7)]);
            builder.sample(vec![location], vec![5], Some(("thread", "rpc")));
        }
        let mut bytes = Vec::new();
        let encoded = builder.encode(Duration::from_nanos(3)).expect("memory");
        GzDecoder::new(&encoded[..]).read_to_end(&mut bytes).expect("gzip");
        let profile = Profile::decode(&bytes[..]).expect("a profile");
        assert_eq!(
            profile.string_table,
            ["", "cpu", "nanoseconds", "put", "kv.rs", "thread", "rpc", "get"],
            "the first one is empty"
        );
        assert_eq!((profile.function.len(), profile.location.len(), profile.sample.len()), (2, 2, 3));
        assert_eq!(profile.sample[0], profile.sample[2]);
        assert_eq!((profile.duration_nanos, profile.period), (3, 10));
    }
}
