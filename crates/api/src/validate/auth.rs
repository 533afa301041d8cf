//! Requests of the Auth service.

use super::is_empty_range;
use crate::Error;
use crate::etcdserverpb::{AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest};

/// Checks a new user.
///
/// # Errors
/// [`Error::UserEmpty`]
pub fn user_add(request: &AuthUserAddRequest) -> Result<(), Error> {
    if request.name.is_empty() { Err(Error::UserEmpty) } else { Ok(()) }
}

/// Checks a new role.
///
/// # Errors
/// [`Error::RoleEmpty`]
pub fn role_add(request: &AuthRoleAddRequest) -> Result<(), Error> {
    if request.name.is_empty() { Err(Error::RoleEmpty) } else { Ok(()) }
}

/// Checks a permission: there must be one, and its range must hold a key.
///
/// # Errors
/// [`Error::PermissionNotGiven`], [`Error::InvalidAuthManagement`]
pub fn role_grant_permission(request: &AuthRoleGrantPermissionRequest) -> Result<(), Error> {
    let permission = request.perm.as_ref().ok_or(Error::PermissionNotGiven)?;
    if permission.key.is_empty() || is_empty_range(&permission.key, &permission.range_end) {
        return Err(Error::InvalidAuthManagement);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authpb::Permission;

    fn grant(key: &'static str, range_end: &'static str) -> Result<(), Error> {
        let perm = Permission { perm_type: 0, key: key.into(), range_end: range_end.into() };
        role_grant_permission(&AuthRoleGrantPermissionRequest { name: "r".into(), perm: Some(perm) })
    }

    #[test]
    fn names_must_be_given() {
        let user = |name: &str| user_add(&AuthUserAddRequest { name: name.into(), ..Default::default() });
        let role = |name: &str| role_add(&AuthRoleAddRequest { name: name.into() });
        assert_eq!(user(""), Err(Error::UserEmpty));
        assert_eq!(user("u"), Ok(()));
        assert_eq!(role(""), Err(Error::RoleEmpty));
        assert_eq!(role("r"), Ok(()));
    }

    #[test]
    fn a_permission_must_hold_a_key() {
        let none = AuthRoleGrantPermissionRequest { name: "r".into(), perm: None };
        assert_eq!(role_grant_permission(&none), Err(Error::PermissionNotGiven));
        for (key, end) in [("a", ""), ("a", "\0"), ("a", "b"), ("\0", "\0")] {
            assert_eq!(grant(key, end), Ok(()), "{key:?} {end:?}");
        }
        for (key, end) in [("", ""), ("", "\0"), ("", "b"), ("a", "a"), ("b", "a")] {
            assert_eq!(grant(key, end), Err(Error::InvalidAuthManagement), "{key:?} {end:?}");
        }
    }
}
