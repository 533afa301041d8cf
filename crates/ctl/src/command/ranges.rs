//! Requests on keys from flags and arguments: for the commands, and for the lines of a transaction.

use api::etcdserverpb as pb;
use bytes::Bytes;
use pb::range_request::{SortOrder, SortTarget};

use crate::exit::{Exit, code};
use cli::Arg;
use cli::parse::Values;
use cli::text::quote::quoted;
use cli::values::parse_int;

/// `--consistency`: whether a read may be served without asking the others.
///
/// # Errors
///
/// Neither `l` nor `s`.
pub(crate) fn is_serializable(values: &Values) -> Result<bool, Exit> {
    match values.text("consistency") {
        "s" => Ok(true),
        "l" => Ok(false),
        other => Err(unknown_consistency(other)),
    }
}

/// The error for a consistency that does not exist.
pub(crate) fn unknown_consistency(name: &str) -> Exit {
    Exit::new(code::BAD_FEATURE, format!("unknown consistency flag {}", quoted(name.as_bytes())))
}

/// Key and end of `get` and `del`.
fn key_and_end(values: &Values, args: &[Arg]) -> Result<(Bytes, Bytes), Exit> {
    let (prefix, from_key) = (values.switch("prefix"), values.switch("from-key"));
    let key = args.first().cloned().unwrap_or_default();
    if let Some(end) = args.get(1) {
        if prefix || from_key {
            return Err(Exit::bad_args(
                "too many arguments, only accept one argument when `--prefix` or `--from-key` is set",
            ));
        }
        return Ok((key.into(), Bytes::from(end.clone())));
    }
    if (prefix || from_key) && key.is_empty() {
        return Ok((Bytes::from_static(b"\0"), Bytes::from_static(api::TO_THE_END)));
    }
    let end = match (prefix, from_key) {
        (true, _) => api::prefix_end(&key),
        (_, true) => Bytes::from_static(api::TO_THE_END),
        _ => Bytes::new(),
    };
    Ok((key.into(), end))
}

fn refuse_both(values: &Values, left: &str, right: &str) -> Result<(), Exit> {
    if values.switch(left) && values.switch(right) {
        return Err(Exit::bad_args(format!(
            "`--{left}` and `--{right}` cannot be set at the same time, choose one"
        )));
    }
    Ok(())
}

/// The request of `get`.
///
/// # Errors
///
/// Arguments or flags that do not fit together.
pub(crate) fn range(values: &Values, args: &[Arg]) -> Result<pb::RangeRequest, Exit> {
    if args.is_empty() {
        return Err(Exit::bad_args(
            "get command needs one argument as key and an optional argument as range_end",
        ));
    }
    refuse_both(values, "prefix", "from-key")?;
    refuse_both(values, "keys-only", "count-only")?;
    let serializable = is_serializable(values)?;
    let (key, range_end) = key_and_end(values, args)?;
    let (sort_order, sort_target) = sort(values)?;
    let revision = |name| values.int(name).max(0);
    let request = pb::RangeRequest {
        key,
        range_end,
        limit: values.int("limit"),
        revision: revision("rev"),
        sort_order: sort_order.into(),
        sort_target: sort_target.into(),
        serializable,
        keys_only: values.switch("keys-only"),
        count_only: values.switch("count-only"),
        min_mod_revision: revision("min-mod-rev"),
        max_mod_revision: revision("max-mod-rev"),
        min_create_revision: revision("min-create-rev"),
        max_create_revision: revision("max-create-rev"),
    };
    for (name, min, max) in [
        ("Create", values.int("min-create-rev"), values.int("max-create-rev")),
        ("Mod", values.int("min-mod-rev"), values.int("max-mod-rev")),
    ] {
        if max > 0 && min > max {
            let message = format!("getMin{name}Rev(={min}) > getMax{name}Rev(={max})");
            return Err(Exit::new(code::BAD_FEATURE, message));
        }
    }
    Ok(request)
}

/// `--order` and `--sort-by`. Keys in ascending order are what a server sends anyway.
fn sort(values: &Values) -> Result<(SortOrder, SortTarget), Exit> {
    let order = match values.text("order").to_uppercase().as_str() {
        "" => SortOrder::None,
        "ASCEND" => SortOrder::Ascend,
        "DESCEND" => SortOrder::Descend,
        _ => return Err(Exit::new(code::BAD_FEATURE, format!("bad sort order {}", values.text("order")))),
    };
    let target = match values.text("sort-by").to_uppercase().as_str() {
        "" | "KEY" => SortTarget::Key,
        "CREATE" => SortTarget::Create,
        "MODIFY" => SortTarget::Mod,
        "VALUE" => SortTarget::Value,
        "VERSION" => SortTarget::Version,
        _ => return Err(Exit::new(code::BAD_FEATURE, format!("bad sort target {}", values.text("sort-by")))),
    };
    let plain = order == SortOrder::Ascend && target == SortTarget::Key;
    Ok((if plain { SortOrder::None } else { order }, target))
}

/// The request of `del`.
///
/// # Errors
///
/// Arguments or flags that do not fit together.
pub(crate) fn delete(values: &Values, args: &[Arg]) -> Result<pb::DeleteRangeRequest, Exit> {
    if args.is_empty() || args.len() > 2 {
        return Err(Exit::bad_args(
            "del command needs one argument as key and an optional argument as range_end",
        ));
    }
    refuse_both(values, "prefix", "from-key")?;
    let (key, range_end) = key_and_end(values, args)?;
    Ok(pb::DeleteRangeRequest { key, range_end, prev_kv: values.switch("prev-kv") })
}

/// What `put` says when it has no value.
const NO_VALUE: &str = "put command needs 1 argument and input from stdin or 2 arguments";

/// The request of `put`; `read_value` is asked for the value if it is not an argument.
///
/// # Errors
///
/// Arguments or flags that do not fit together, or no value.
pub(crate) fn put(
    values: &Values,
    args: &[Arg],
    read_value: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<pb::PutRequest, Exit> {
    let Some(key) = args.first() else { return Err(Exit::bad_args(NO_VALUE)) };
    let ignore_value = values.switch("ignore-value");
    if ignore_value && args.len() > 1 {
        return Err(Exit::bad_args("put command needs only 1 argument when 'ignore-value' is set"));
    }
    let value = match args.get(1) {
        _ if ignore_value => Vec::new(),
        Some(value) => value.clone(),
        None => read_value().filter(|value| !value.is_empty()).ok_or_else(|| Exit::bad_args(NO_VALUE))?,
    };
    let lease = parse_int(values.text("lease"), 16)
        .map_err(|why| Exit::bad_args(format!("bad lease ID ({why}), expecting ID in Hex")))?;
    Ok(pb::PutRequest {
        key: key.clone().into(),
        value: value.into(),
        lease,
        prev_kv: values.switch("prev-kv"),
        ignore_value,
        ignore_lease: values.switch("ignore-lease"),
    })
}
