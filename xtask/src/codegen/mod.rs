//! Generates the Rust code of `crates/api/src/generated/` from `proto/`.
//!
//! The output is committed, so that building Stele needs no code generator and a change of the
//! wire types is seen in review; `cargo xtask codegen --check` keeps the two together. Per
//! package there is `<package>.rs` with the messages; `methods.rs` names the path of every rpc;
//! `routes.rs` and `descriptors.bin` are what the JSON gateway is made of (`gateway.rs`).
//!
//! Compiling is done by protox: no protoc is needed.

mod gateway;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use prost_build::Config;
use prost_types::FileDescriptorSet;
use protox::prost_reflect::DescriptorPool;

/// Packages that are not ours: options of ours are declared there. They lie below the folder of this name.
const FOREIGN: &str = "google";

/// Relative path below the output directory, and content.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Writes the generated code, or with `check` only compares it with what is committed.
///
/// # Errors
/// What is wrong with the .proto files or the file system; with `check`, the files that differ.
pub(crate) fn run(check: bool) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in no workspace")?;
    let output = root.join("crates/api/src/generated");
    let expected = generate(&root.join("proto"))?;
    let present = read_tree(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    let stale = differing(&expected, &present);
    if stale.is_empty() {
        return Ok(());
    }
    if check {
        return Err(format!(
            "generated code differs from proto/: {}; run `cargo xtask codegen` and commit the result",
            stale.join(", ")
        ));
    }
    replace_tree(&output, &expected).map_err(|e| format!("{}: {e}", output.display()))?;
    println!("codegen: wrote {}", stale.join(", "));
    Ok(())
}

fn generate(proto: &Path) -> Result<Files, String> {
    let (descriptors, pool) = compile(proto)?;
    let routes = gateway::routes(&pool)?;
    let descriptor_set = gateway::descriptor_set(&descriptors);
    let scratch = scratch_dir().map_err(|e| format!("scratch directory: {e}"))?;
    let files =
        generate_in(&scratch, with_rust_names(descriptors)).map_err(|e| format!("code generation: {e}"));
    fs::remove_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let mut files = files?;
    files.insert(PathBuf::from("routes.rs"), routes.into_bytes());
    files.insert(PathBuf::from("descriptors.bin"), descriptor_set);
    Ok(files)
}

/// Our files, without what they import of others; and the same with everything, where options can be looked up.
fn compile(proto: &Path) -> Result<(FileDescriptorSet, DescriptorPool), String> {
    let mut sources = Vec::new();
    let packages = sorted_entries(proto).map_err(|e| format!("{}: {e}", proto.display()))?;
    for package in packages.iter().filter(|package| !package.ends_with(FOREIGN)) {
        sources.extend(sorted_entries(package).map_err(|e| format!("{}: {e}", package.display()))?);
    }
    let mut compiler = protox::Compiler::new([proto]).map_err(|e| e.to_string())?;
    compiler.include_source_info(true).open_files(sources).map_err(|e| format!("{e:?}"))?;
    let mut descriptors = compiler.file_descriptor_set();
    let is_ours = |name: &str| !Path::new(name).starts_with(FOREIGN);
    descriptors.file.retain(|file| is_ours(file.name()));
    descriptors.file.iter_mut().for_each(|file| file.dependency.retain(|name| is_ours(name)));
    Ok((descriptors, compiler.descriptor_pool()))
}

/// Prost would call `peerURLs` `peer_ur_ls`. Field names are not on the wire, and the names of
/// the JSON mapping are kept beside them, so the descriptors may say `peer_urls`.
fn with_rust_names(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for message in descriptors.file.iter_mut().flat_map(|file| &mut file.message_type) {
        for field in &mut message.field {
            if let Some(owner) = field.name().strip_suffix("URLs").map(str::to_owned) {
                field.name = Some(format!("{owner}_urls"));
            }
        }
    }
    descriptors
}

fn generate_in(scratch: &Path, descriptors: FileDescriptorSet) -> io::Result<Files> {
    let methods = method_paths(&descriptors);

    let mut config = Config::new();
    // Values are slices of the buffer they came in, all the way to the log.
    config.bytes(["."]);
    config.out_dir(scratch).compile_fds(descriptors)?;

    let mut files = read_tree(scratch)?;
    files.insert(PathBuf::from("methods.rs"), methods.into_bytes());
    Ok(files)
}

/// One constant a method, such as `KV_PUT`, and `ALL`.
fn method_paths(descriptors: &FileDescriptorSet) -> String {
    let mut constants = String::new();
    let mut names = Vec::new();
    for file in &descriptors.file {
        for service in &file.service {
            for method in &service.method {
                let name = constant_name(service.name(), method.name());
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let _ = writeln!(constants, "/// `{path}`\npub const {name}: &str = \"{path}\";");
                names.push(name);
            }
        }
    }
    let mut text = String::from("// This file is @generated by `cargo xtask codegen`.\n");
    text += &constants;
    let _ = writeln!(text, "/// The path of every method.\npub const ALL: [&str; {}] = [", names.len());
    for name in names {
        let _ = writeln!(text, "    {name},");
    }
    text += "];\n";
    text
}

/// `KV` and `RangeStream` make `KV_RANGE_STREAM`; a run of capitals is one word. A method named
/// after its service does not repeat it: `LEASE_GRANT`, not `LEASE_LEASE_GRANT`.
fn constant_name(service: &str, method: &str) -> String {
    let method = match method.strip_prefix(service) {
        Some(rest) if rest.starts_with(|letter: char| letter.is_ascii_uppercase()) => rest,
        _ => method,
    };
    let mut name = service.to_ascii_uppercase();
    name.push('_');
    let mut previous_is_lower = false;
    for letter in method.chars() {
        if letter.is_ascii_uppercase() && previous_is_lower {
            name.push('_');
        }
        previous_is_lower = letter.is_ascii_lowercase();
        name.push(letter.to_ascii_uppercase());
    }
    name
}

fn differing(expected: &Files, present: &Files) -> Vec<String> {
    let mut stale: Vec<String> = expected
        .iter()
        .filter(|(path, content)| present.get(*path) != Some(content))
        .chain(present.iter().filter(|(path, _)| !expected.contains_key(*path)))
        .map(|(path, _)| path.display().to_string())
        .collect();
    stale.sort();
    stale
}

fn replace_tree(output: &Path, files: &Files) -> io::Result<()> {
    if output.exists() {
        fs::remove_dir_all(output)?;
    }
    for (path, content) in files {
        let path = output.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    Ok(())
}

/// The files of a directory and of those directly below it; none if it does not exist.
fn read_tree(directory: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(next) = pending.pop() {
        if !next.exists() {
            continue;
        }
        for path in sorted_entries(&next)? {
            if path.is_dir() {
                pending.push(path);
            } else if let Ok(relative) = path.strip_prefix(directory) {
                files.insert(relative.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

fn sorted_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

/// Empty, and of this process alone, so that runs side by side do not meet.
fn scratch_dir() -> io::Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("stele-codegen-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_named_in_words() {
        assert_eq!(constant_name("KV", "RangeStream"), "KV_RANGE_STREAM");
        assert_eq!(constant_name("Maintenance", "HashKV"), "MAINTENANCE_HASH_KV");
        assert_eq!(constant_name("Lease", "LeaseKeepAlive"), "LEASE_KEEP_ALIVE");
        assert_eq!(constant_name("Auth", "Authenticate"), "AUTH_AUTHENTICATE");
        assert_eq!(constant_name("Watch", "Watch"), "WATCH_WATCH");
    }

    #[test]
    fn a_changed_a_missing_and_a_left_over_file_are_named() {
        let file = |name: &str, content: &str| (PathBuf::from(name), content.as_bytes().to_vec());
        let expected = Files::from([file("a", "1"), file("b", "1"), file("c", "1")]);
        let present = Files::from([file("a", "1"), file("b", "2"), file("d", "1")]);
        assert_eq!(differing(&expected, &present), ["b", "c", "d"]);
    }
}
