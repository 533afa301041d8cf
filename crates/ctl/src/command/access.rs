//! `auth`, `user`, `role`.

use api::etcdserverpb as pb;
use api::{authpb, methods};
use bytes::Bytes;
use prost::Message;

use crate::exit::{Exit, Outcome};
use crate::password;
use crate::print::json::ToJson;
use crate::print::{View, fields, simple};
use crate::shell::Shell;
use crate::show;
use cli::text::quote::quoted;

/// Which arguments a command takes: their number, at least or exactly, and what it says otherwise.
fn arguments(words: &str) -> (usize, bool, &'static str) {
    match words {
        "auth enable" => (0, true, "auth enable command does not accept any arguments"),
        "auth disable" => (0, true, "auth disable command does not accept any arguments"),
        "auth status" => (0, true, "auth status command does not accept any arguments"),
        "user add" => (1, true, "user add command requires user name as its argument"),
        "user delete" => (1, true, "user delete command requires user name as its argument"),
        "user get" => (1, true, "user get command requires user name as its argument"),
        "user list" => (0, true, "user list command requires no arguments"),
        "user passwd" => (1, true, "user passwd command requires user name as its argument"),
        "user grant-role" => (2, true, "user grant command requires user name and role name as its argument"),
        "user revoke-role" => (2, true, "user revoke-role requires user name and role name as its argument"),
        "role add" => (1, true, "role add command requires role name as its argument"),
        "role delete" => (1, true, "role delete command requires role name as its argument"),
        "role get" => (1, true, "role get command requires role name as its argument"),
        "role list" => (0, true, "role list command requires no arguments"),
        "role grant-permission" => (
            3,
            false,
            "role grant command requires role name, permission type, and key [endkey] as its argument",
        ),
        _ => (2, false, "role revoke-permission command requires role name and key [endkey] as its argument"),
    }
}

pub(super) async fn run(shell: &mut Shell, words: &str) -> Outcome {
    let (count, exact, message) = arguments(words);
    if shell.args.len() < count || exact && shell.args.len() != count {
        return Err(Exit::bad_args(message));
    }
    match words {
        "auth enable" => enable(shell).await,
        "auth disable" => disable(shell).await,
        "auth status" => status(shell).await,
        "user add" => add_user(shell).await,
        "user get" => get_user(shell).await,
        "user passwd" => change_password(shell).await,
        "role get" => get_role(shell).await,
        "role grant-permission" => grant_permission(shell).await,
        "role revoke-permission" => revoke_permission(shell).await,
        "user list" => {
            let answer: pb::AuthUserListResponse =
                read(shell, methods::AUTH_USER_LIST, &pb::AuthUserListRequest {}).await?;
            show::message(shell, &answer, |out| lines(out, &answer.users), None)
        }
        "role list" => {
            let answer: pb::AuthRoleListResponse =
                read(shell, methods::AUTH_ROLE_LIST, &pb::AuthRoleListRequest {}).await?;
            let form = |out: &mut Vec<u8>, answer: &pb::AuthRoleListResponse, view: View| {
                fields::header(out, &answer.header, view);
                let roles: String =
                    answer.roles.iter().map(|role| format!(" {}", quoted(role.as_bytes()))).collect();
                simple::line(out, format_args!("\"Roles\" :{roles}"));
            };
            show::message(shell, &answer, |out| lines(out, &answer.roles), Some(form))
        }
        words => change(shell, words).await,
    }
}

fn lines(out: &mut Vec<u8>, names: &[String]) {
    for name in names {
        simple::line(out, format_args!("{name}"));
    }
}

async fn read<A: Message + Default>(
    shell: &mut Shell,
    method: &'static str,
    request: &impl Message,
) -> Result<A, Exit> {
    let client = shell.client().await?;
    Ok(client.read(method, request, None).await?)
}

/// An answer that holds a header and nothing else.
trait HeaderOnly: Message + ToJson + Default {
    fn header(&self) -> &Option<pb::ResponseHeader>;
}

macro_rules! header_only {
    ($($kind:ident),*) => {
        $(impl HeaderOnly for pb::$kind {
            fn header(&self) -> &Option<pb::ResponseHeader> {
                &self.header
            }
        })*
    };
}

header_only!(
    AuthUserAddResponse,
    AuthUserDeleteResponse,
    AuthUserChangePasswordResponse,
    AuthUserGrantRoleResponse,
    AuthUserRevokeRoleResponse,
    AuthRoleAddResponse,
    AuthRoleDeleteResponse,
    AuthRoleGrantPermissionResponse,
    AuthRoleRevokePermissionResponse
);

/// Makes a change and prints its answer, in the simple form as a line.
async fn write<A: HeaderOnly>(
    shell: &mut Shell,
    method: &'static str,
    request: &impl Message,
    line: &str,
) -> Outcome {
    let client = shell.client().await?;
    let answer: A = client.write(method, request, None).await?;
    show::message(
        shell,
        &answer,
        |out| simple::line(out, format_args!("{line}")),
        Some(|out, answer: &A, view| fields::header(out, answer.header(), view)),
    )
}

/// The changes that need no more than names.
async fn change(shell: &mut Shell, words: &str) -> Outcome {
    let (name, role) = (shell.arg(0), shell.arg(1));
    match words {
        "user delete" => {
            let request = pb::AuthUserDeleteRequest { name: name.clone() };
            let line = format!("User {name} deleted");
            write::<pb::AuthUserDeleteResponse>(shell, methods::AUTH_USER_DELETE, &request, &line).await
        }
        "user grant-role" => {
            let line = format!("Role {role} is granted to user {name}");
            let request = pb::AuthUserGrantRoleRequest { user: name, role };
            write::<pb::AuthUserGrantRoleResponse>(shell, methods::AUTH_USER_GRANT_ROLE, &request, &line)
                .await
        }
        "user revoke-role" => {
            let line = format!("Role {role} is revoked from user {name}");
            let request = pb::AuthUserRevokeRoleRequest { name, role };
            write::<pb::AuthUserRevokeRoleResponse>(shell, methods::AUTH_USER_REVOKE_ROLE, &request, &line)
                .await
        }
        "role add" => {
            let line = format!("Role {name} created");
            let request = pb::AuthRoleAddRequest { name };
            write::<pb::AuthRoleAddResponse>(shell, methods::AUTH_ROLE_ADD, &request, &line).await
        }
        _ => {
            let line = format!("Role {name} deleted");
            let request = pb::AuthRoleDeleteRequest { role: name };
            write::<pb::AuthRoleDeleteResponse>(shell, methods::AUTH_ROLE_DELETE, &request, &line).await
        }
    }
}

/// Enables authentication; the role `root` is made and granted if only that is missing.
async fn enable(shell: &mut Shell) -> Outcome {
    let deadline = shell.deadline();
    let client = shell.client().await?;
    loop {
        let enabled: Result<pb::AuthEnableResponse, _> =
            client.write(methods::AUTH_ENABLE, &pb::AuthEnableRequest {}, deadline).await;
        match enabled {
            Ok(_) => return shell.say("Authentication Enabled"),
            Err(error) if error.says("etcdserver: root user does not have root role") => {
                let root = || "root".to_owned();
                let add = pb::AuthRoleAddRequest { name: root() };
                let _: pb::AuthRoleAddResponse = client.write(methods::AUTH_ROLE_ADD, &add, deadline).await?;
                let grant = pb::AuthUserGrantRoleRequest { user: root(), role: root() };
                let _: pb::AuthUserGrantRoleResponse =
                    client.write(methods::AUTH_USER_GRANT_ROLE, &grant, deadline).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn disable(shell: &mut Shell) -> Outcome {
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let _: pb::AuthDisableResponse =
        client.write(methods::AUTH_DISABLE, &pb::AuthDisableRequest {}, deadline).await?;
    shell.say("Authentication Disabled")
}

async fn status(shell: &mut Shell) -> Outcome {
    let deadline = shell.deadline();
    let client = shell.client().await?;
    let answer: pb::AuthStatusResponse =
        client.read(methods::AUTH_STATUS, &pb::AuthStatusRequest {}, deadline).await?;
    let (enabled, revision) = (answer.enabled, answer.auth_revision);
    let line = |out: &mut Vec<u8>| {
        simple::line(out, format_args!("Authentication Status: {enabled}\nAuthRevision: {revision}"));
    };
    show::message(shell, &answer, line, None)
}

async fn add_user(shell: &mut Shell) -> Outcome {
    let mut name = shell.arg(0);
    let mut password = shell.values.text("new-user-password").to_owned();
    let no_password = shell.values.switch("no-password");
    if no_password {
        password.clear();
    } else if password.is_empty() {
        match name.split_once(':') {
            Some(("", _)) => return Err(Exit::bad_args("empty user name is not allowed")),
            Some((user, given)) => (name, password) = (user.to_owned(), given.to_owned()),
            None => password = new_password(shell, &name)?,
        }
    }
    let line = format!("User {name} created");
    let options = Some(authpb::UserAddOptions { no_password });
    let request = pb::AuthUserAddRequest { name, password, options, hashed_password: String::new() };
    write::<pb::AuthUserAddResponse>(shell, methods::AUTH_USER_ADD, &request, &line).await
}

async fn change_password(shell: &mut Shell) -> Outcome {
    let name = shell.arg(0);
    let password = new_password(shell, &name)?;
    let request = pb::AuthUserChangePasswordRequest { name, password, hashed_password: String::new() };
    let method = methods::AUTH_USER_CHANGE_PASSWORD;
    write::<pb::AuthUserChangePasswordResponse>(shell, method, &request, "Password updated").await
}

/// A password that is asked for twice, or read from a script.
fn new_password(shell: &mut Shell, name: &str) -> Result<String, Exit> {
    if !shell.values.switch("interactive") {
        return Ok(password::scan(&mut shell.streams));
    }
    let failed = |why: String| Exit::bad_args(format!("failed to ask password: {why}"));
    let first = password::ask(&mut shell.streams, &format!("Password of {name}: ")).map_err(failed)?;
    if first.is_empty() {
        return Err(Exit::bad_args("empty password"));
    }
    let again =
        password::ask(&mut shell.streams, &format!("Type password of {name} again for confirmation: "))
            .map_err(failed)?;
    if first != again {
        return Err(Exit::bad_args("given passwords are different"));
    }
    Ok(first)
}

async fn get_user(shell: &mut Shell) -> Outcome {
    let name = shell.arg(0);
    let client = shell.client().await?;
    let request = pb::AuthUserGetRequest { name: name.clone() };
    let answer: pb::AuthUserGetResponse = client.read(methods::AUTH_USER_GET, &request, None).await?;
    if !shell.values.switch("detail") {
        let roles: String = answer.roles.iter().map(|role| format!(" {role}")).collect();
        let line = |out: &mut Vec<u8>| simple::line(out, format_args!("User: {name}\nRoles:{roles}"));
        return show::message(shell, &answer, line, None);
    }
    shell.say(format!("User: {name}"))?;
    for role in answer.roles {
        shell.say("")?;
        let request = pb::AuthRoleGetRequest { role: role.clone() };
        let answer: pb::AuthRoleGetResponse = client.read(methods::AUTH_ROLE_GET, &request, None).await?;
        show_role(shell, &role, &answer)?;
    }
    Ok(())
}

async fn get_role(shell: &mut Shell) -> Outcome {
    let role = shell.arg(0);
    let request = pb::AuthRoleGetRequest { role: role.clone() };
    let answer = read(shell, methods::AUTH_ROLE_GET, &request).await?;
    show_role(shell, &role, &answer)
}

fn show_role(shell: &mut Shell, role: &str, answer: &pb::AuthRoleGetResponse) -> Outcome {
    let form = |out: &mut Vec<u8>, answer: &pb::AuthRoleGetResponse, view: View| {
        fields::header(out, &answer.header, view);
        for permission in &answer.perm {
            let (key, end) = (quoted(&permission.key), quoted(&permission.range_end));
            let kind = permission.perm_type().as_str_name();
            simple::line(out, format_args!("\"PermType\" :  {kind}\n\"Key\" : {key}\n\"RangeEnd\" : {end}"));
        }
    };
    show::message(shell, answer, |out| role_lines(out, role, answer), Some(form))
}

fn role_lines(out: &mut Vec<u8>, role: &str, answer: &pb::AuthRoleGetResponse) {
    use authpb::permission::Type;
    simple::line(out, format_args!("Role {role}"));
    let everything = role == "root" && answer.perm.is_empty();
    for (title, kind) in [("KV Read:", Type::Read), ("KV Write:", Type::Write)] {
        simple::line(out, format_args!("{title}"));
        if everything {
            simple::line(out, format_args!("\t[, <open ended>"));
        }
        for permission in &answer.perm {
            if [kind, Type::Readwrite].contains(&permission.perm_type()) {
                permission_line(out, &permission.key, &permission.range_end);
            }
        }
    }
}

fn permission_line(out: &mut Vec<u8>, key: &[u8], end: &[u8]) {
    out.push(b'\t');
    match end {
        b"" => out.extend_from_slice(key),
        b"\0" => out.extend_from_slice(&[b"[", key, b", <open ended>"].concat()),
        end => out.extend_from_slice(&[b"[", key, b", ", end, b")"].concat()),
    }
    if !end.is_empty() && !key.is_empty() && api::prefix_end(key) == end {
        out.extend_from_slice(&[b" (prefix ", key, b")"].concat());
    }
    out.push(b'\n');
}

/// Key and end of a permission.
fn permission_range(shell: &Shell, args: &[Vec<u8>]) -> Result<(Bytes, Bytes), Exit> {
    let (prefix, from_key) = (shell.values.switch("prefix"), shell.values.switch("from-key"));
    let key = args[0].clone();
    if args.len() > 1 && !key.is_empty() {
        if prefix || from_key {
            let flag = if prefix { "prefix" } else { "from-key" };
            return Err(Exit::bad_args(format!("unexpected endkey argument with --{flag} flag")));
        }
        return Ok((key.into(), args[1].clone().into()));
    }
    if prefix && from_key {
        return Err(Exit::bad_args("--from-key and --prefix flags are mutually exclusive"));
    }
    let all = Bytes::from_static(b"\0");
    Ok(match (key.is_empty(), prefix, from_key) {
        (true, false, false) => (all, Bytes::new()),
        (true, ..) => (all.clone(), all),
        (_, true, _) => (key.clone().into(), api::prefix_end(&key)),
        (_, _, true) => (key.into(), all),
        _ => (key.into(), Bytes::new()),
    })
}

async fn grant_permission(shell: &mut Shell) -> Outcome {
    let kind = match shell.arg(1).to_uppercase().as_str() {
        "READ" => authpb::permission::Type::Read,
        "WRITE" => authpb::permission::Type::Write,
        "READWRITE" => authpb::permission::Type::Readwrite,
        _ => return Err(Exit::bad_args(format!("invalid permission type: {}", shell.arg(1)))),
    };
    let name = shell.arg(0);
    let (key, range_end) = permission_range(shell, &shell.args[2..])?;
    let line = format!("Role {name} updated");
    let perm = Some(authpb::Permission { perm_type: kind.into(), key, range_end });
    let request = pb::AuthRoleGrantPermissionRequest { name, perm };
    let method = methods::AUTH_ROLE_GRANT_PERMISSION;
    write::<pb::AuthRoleGrantPermissionResponse>(shell, method, &request, &line).await
}

async fn revoke_permission(shell: &mut Shell) -> Outcome {
    let (role, named) = (shell.arg(0), shell.arg(1));
    let (key, range_end) = permission_range(shell, &shell.args[1..])?;
    let end = String::from_utf8_lossy(&range_end);
    let line = match end.as_ref() {
        "" => format!("Permission of key {named} is revoked from role {role}"),
        "\0" => format!("Permission of range [{named}, <open ended> is revoked from role {role}"),
        end => format!("Permission of range [{named}, {end}) is revoked from role {role}"),
    };
    let request = pb::AuthRoleRevokePermissionRequest { role, key, range_end };
    let method = methods::AUTH_ROLE_REVOKE_PERMISSION;
    write::<pb::AuthRoleRevokePermissionResponse>(shell, method, &request, &line).await
}
