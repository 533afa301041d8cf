//! Encoded messages to JSON, one small message at a time.
//!
//! A dynamic message takes some 900 bytes besides its values: a range of 1,000,000 keys would take 1 GB. So a message
//! that has others in it is never dynamic as a whole. Its encoding is cut into its fields: those that are messages
//! are written one after the other, each by itself, and only the others, numbers and texts, become a dynamic message.
//!
//! ```text
//!   RangeResponse   header: 8 bytes   -> {"cluster_id":...}
//!                   kvs: 1,000,000 encoded messages, each made dynamic, written, and dropped
//!                   more, count       -> a dynamic RangeResponse with nothing else in it
//! ```

use std::collections::BTreeMap;

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, SerializeOptions};

/// Why a request's JSON, or an answer's message, is not what it should be. The texts of the library are passed on as
/// they are: clients see them in the answer with status 400.
#[derive(Debug, thiserror::Error)]
pub enum TranscodeError {
    /// Nothing in JSON begins like this; the words are those of Go's library.
    #[error("invalid character {0:?} looking for beginning of value")]
    NoValue(char),
    /// The JSON is none, or not that of the message.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The bytes are not the message: a fault of this process.
    #[error("{0}")]
    Message(#[from] prost::DecodeError),
}

/// Messages in messages that are written one by one; what is deeper, as in a transaction of many levels, is made
/// dynamic as a whole. It bounds the recursion.
const MAX_SPLIT_DEPTH: usize = 16;

/// Appends the JSON of an encoded message: fields by their number, with the names of the .proto files, without
/// defaults.
///
/// # Errors
/// When the bytes are no such message.
pub(crate) fn write(
    message: &MessageDescriptor,
    encoded: &[u8],
    json: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    write_split(message, encoded, 0, json)
}

fn write_split(
    message: &MessageDescriptor,
    encoded: &[u8],
    depth: usize,
    json: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    if depth == MAX_SPLIT_DEPTH || !message.fields().any(|field| inner(&field).is_some()) {
        return write_dynamic(&DynamicMessage::decode(message.clone(), encoded)?, json);
    }
    let SplitMessage { messages, plain } = split(message, encoded)?;
    let plain = DynamicMessage::decode(message.clone(), &plain[..])?;
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    json.push(b'{');
    let mut is_first = true;
    for field in fields {
        let values = messages.get(&field.number());
        if values.is_none() && !plain.has_field(&field) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            json.push(b',');
        }
        match (values, inner(&field)) {
            (Some(values), Some(inner)) => write_messages(&field, &inner, values, depth, json)?,
            _ => write_plain(&plain, &field, json)?,
        }
    }
    json.push(b'}');
    Ok(())
}

/// Appends a field that holds messages: all in a list, or the one.
fn write_messages(
    field: &FieldDescriptor,
    inner: &MessageDescriptor,
    values: &[&[u8]],
    depth: usize,
    json: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    json.extend_from_slice(format!("\"{}\":", field.name()).as_bytes());
    if !field.is_list() {
        // A message that is there several times is merged: that is what the encodings make together.
        return write_split(inner, &values.concat(), depth + 1, json);
    }
    json.push(b'[');
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_split(inner, value, depth + 1, json)?;
    }
    json.push(b']');
    Ok(())
}

/// Appends one field of a message that holds no messages.
fn write_plain(
    message: &DynamicMessage,
    field: &FieldDescriptor,
    json: &mut Vec<u8>,
) -> Result<(), TranscodeError> {
    let mut alone = DynamicMessage::new(field.parent_message().clone());
    alone.set_field(field, message.get_field(field).into_owned());
    let mut object = Vec::new();
    write_dynamic(&alone, &mut object)?;
    let inside = object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    json.extend_from_slice(inside.unwrap_or_default());
    Ok(())
}

fn write_dynamic(message: &DynamicMessage, json: &mut Vec<u8>) -> Result<(), TranscodeError> {
    let options = SerializeOptions::new().use_proto_field_name(true).skip_default_fields(true);
    message.serialize_with_options(&mut serde_json::Serializer::new(json), &options)?;
    Ok(())
}

/// The message type of a field that holds messages.
fn inner(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(message) if !field.is_map() && !field.is_group() => Some(message),
        _ => None,
    }
}

/// The fields of an encoded message.
struct SplitMessage<'a> {
    /// The encodings of the messages in it, by the numbers of their fields.
    messages: BTreeMap<u32, Vec<&'a [u8]>>,
    /// The encoding of all else.
    plain: Vec<u8>,
}

fn split<'a>(message: &MessageDescriptor, mut encoded: &'a [u8]) -> Result<SplitMessage<'a>, TranscodeError> {
    let mut parts = SplitMessage { messages: BTreeMap::new(), plain: Vec::new() };
    while !encoded.is_empty() {
        let begin = encoded;
        let (number, wire_type) = decode_key(&mut encoded)?;
        let mut value = encoded;
        skip_field(wire_type, number, &mut encoded, DecodeContext::default())?;
        let is_message = || message.get_field(number).is_some_and(|field| inner(&field).is_some());
        if wire_type == WireType::LengthDelimited && is_message() {
            decode_varint(&mut value)?;
            let (value, _) = value.split_at(value.len() - encoded.len());
            parts.messages.entry(number).or_default().push(value);
        } else {
            let (field, _) = begin.split_at(begin.len() - encoded.len());
            parts.plain.extend_from_slice(field);
        }
    }
    Ok(parts)
}
