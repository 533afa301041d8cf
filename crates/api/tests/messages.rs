//! `proto/` against the contract: every message, field, enum value and method, by name, number
//! and type. That the committed Rust code is what `proto/` makes is for `cargo xtask codegen
//! --check` to say. What is in `stelepb` is in no contract of etcd's.

use std::collections::BTreeSet;
use std::path::Path;

use protox::prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
};

const CONTRACT: &str = include_str!("contract/messages.tsv");

const FILES: [&str; 7] = [
    "authpb/auth.proto",
    "etcdserverpb/raft_internal.proto",
    "etcdserverpb/rpc.proto",
    "membershippb/membership.proto",
    "mvccpb/kv.proto",
    "v3electionpb/v3election.proto",
    "v3lockpb/v3lock.proto",
];

fn pool() -> DescriptorPool {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let mut compiler = protox::Compiler::new([proto]).expect("proto/ can be read");
    compiler.open_files(FILES).expect("proto/ compiles");
    compiler.descriptor_pool()
}

fn is_ours(package: &str) -> bool {
    !package.starts_with("google.")
}

fn contract() -> BTreeSet<String> {
    CONTRACT.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_protocol_is_the_contract() {
    let pool = pool();
    let mut rows = BTreeSet::new();
    for message in pool.all_messages().filter(|message| is_ours(message.package_name())) {
        rows.extend(message.fields().map(|field| field_row(&message, &field)));
        rows.extend(reserved_rows(&message));
    }
    for enumeration in pool.all_enums().filter(|enumeration| is_ours(enumeration.package_name())) {
        rows.extend(enum_rows(&enumeration));
    }
    for service in pool.services() {
        rows.extend(service.methods().map(|method| method_row(&method)));
    }
    let contract = contract();
    assert_eq!(rows.difference(&contract).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the contract");
    assert_eq!(contract.difference(&rows).collect::<Vec<_>>(), Vec::<&String>::new(), "missing in proto/");
}

#[test]
fn a_message_without_fields_is_used_by_some_method_or_field() {
    let pool = pool();
    let mut used = BTreeSet::new();
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        used.insert(method.input().full_name().to_owned());
        used.insert(method.output().full_name().to_owned());
    }
    for field in pool.all_messages().flat_map(|message| message.fields().collect::<Vec<_>>()) {
        used.extend(field.kind().as_message().map(|message| message.full_name().to_owned()));
    }
    let ours = pool.all_messages().filter(|message| is_ours(message.package_name()));
    for message in ours.filter(|message| message.fields().len() == 0) {
        assert!(used.contains(message.full_name()), "{}", message.full_name());
    }
}

#[test]
fn method_paths_are_the_methods() {
    let row_path = |row: String| Some(format!("/{}", row.strip_prefix("rpc\t")?.split('\t').next()?));
    let expected: BTreeSet<String> = contract().into_iter().filter_map(row_path).collect();
    let (own, etcds): (BTreeSet<String>, BTreeSet<String>) =
        api::methods::ALL.iter().map(|path| path.to_string()).partition(|path| path.starts_with("/stelepb."));
    assert_eq!(etcds, expected);
    let ours = ["/stelepb.Admin/Reload", "/stelepb.Backup/Base", "/stelepb.Backup/Entries"];
    assert_eq!(own, ours.map(str::to_owned).into(), "the API that is not etcd's");
    assert_eq!(api::methods::KV_PUT, "/etcdserverpb.KV/Put");
    assert_eq!(api::methods::AUTH_AUTHENTICATE, "/etcdserverpb.Auth/Authenticate");
}

fn field_row(message: &MessageDescriptor, field: &FieldDescriptor) -> String {
    let (number, name) = (field.number(), field.name());
    let kind = type_name(message, &field.kind());
    let repeated = if field.cardinality() == Cardinality::Repeated { "repeated " } else { "" };
    let mut row = format!("field\t{}\t{number}\t{name}\t{repeated}{kind}", message.full_name());
    if let Some(oneof) = field.containing_oneof() {
        row += &format!("\toneof {}", oneof.name());
    }
    row
}

fn reserved_rows(message: &MessageDescriptor) -> Vec<String> {
    let row = |what: String| format!("reserved\t{}\t{what}", message.full_name());
    let numbers = message.reserved_ranges().flatten().map(|number| row(number.to_string()));
    numbers.chain(message.reserved_names().map(|name| row(format!("{name:?}")))).collect()
}

fn enum_rows(enumeration: &EnumDescriptor) -> Vec<String> {
    let row = |number: i32, name: &str| format!("enum\t{}\t{number}\t{name}", enumeration.full_name());
    enumeration.values().map(|value| row(value.number(), value.name())).collect()
}

fn method_row(method: &MethodDescriptor) -> String {
    let stream = |is_stream| if is_stream { "stream " } else { "" };
    format!(
        "rpc\t{}/{}\t{}{}\t{}{}",
        method.parent_service().full_name(),
        method.name(),
        stream(method.is_client_streaming()),
        method.input().name(),
        stream(method.is_server_streaming()),
        method.output().name(),
    )
}

/// As it would be written inside the message: without the package or message it shares.
fn type_name(message: &MessageDescriptor, kind: &Kind) -> String {
    let full = match kind {
        Kind::Message(inner) => inner.full_name().to_owned(),
        Kind::Enum(inner) => inner.full_name().to_owned(),
        scalar => return format!("{scalar:?}").to_lowercase(),
    };
    let scopes = [message.full_name(), message.package_name()];
    let shortened = scopes.iter().find_map(|scope| full.strip_prefix(scope)?.strip_prefix('.'));
    shortened.unwrap_or(&full).to_owned()
}
