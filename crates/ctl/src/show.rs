//! Prints the answer of a call in the form that was asked for.

use prost::Message;

use crate::exit::Outcome;
use crate::print::json::ToJson;
use crate::print::{Forms, Missing, View, json_line};
use crate::shell::Shell;

/// Prints an answer that is a message: its JSON and protobuf need no more words.
///
/// # Errors
///
/// The answer has no such form, or the output is closed.
pub(crate) fn message<M: Message + ToJson>(
    shell: &mut Shell,
    message: &M,
    simple: impl FnOnce(&mut Vec<u8>),
    fields: Option<fn(&mut Vec<u8>, &M, View)>,
) -> Outcome {
    let view = shell.view;
    let forms = Forms {
        simple: || {
            let mut out = Vec::new();
            simple(&mut out);
            out
        },
        fields: fields.map(|fields| {
            move || {
                let mut out = Vec::new();
                fields(&mut out, message, view);
                out
            }
        }),
        json: || json_line(message),
        protobuf: Some(|| message.encode_to_vec()),
        table: None::<Missing>,
    };
    shell.print(&forms.bytes(view.format)?)
}
