//! Every method, and what must not be accepted: other algorithms, other keys, changed or expired tokens.
//!
//! The keys in `testdata/jwt` were made with openssl for these tests. Nothing else uses them.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

fn key_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/jwt").join(name)
}

fn options(method: SignMethod, private: Option<&str>, public: Option<&str>) -> JwtOptions {
    let ttl = Duration::from_secs(60);
    JwtOptions { method, public_key: public.map(key_file), private_key: private.map(key_file), ttl }
}

/// The private and the public key of a method.
fn pair(method: SignMethod) -> (&'static str, Option<&'static str>) {
    match method {
        SignMethod::Es256 => ("p256.key", Some("p256.pub")),
        SignMethod::Es384 => ("p384.key", Some("p384.pub")),
        SignMethod::Es512 => ("p521.key", Some("p521.pub")),
        SignMethod::EdDsa => ("ed25519.key", Some("ed25519.pub")),
        SignMethod::Hs256 | SignMethod::Hs384 | SignMethod::Hs512 => ("hmac.secret", None),
        _ => ("rsa.key", Some("rsa.pub")),
    }
}

fn tokens(method: SignMethod, private: Option<&str>, public: Option<&str>) -> JwtTokens {
    JwtTokens::load(&options(method, private, public)).expect("good keys")
}

fn signing(method: SignMethod) -> JwtTokens {
    let (private, public) = pair(method);
    tokens(method, Some(private), public)
}

fn load_error(options: &JwtOptions) -> String {
    JwtTokens::load(options).err().expect("the keys are refused").to_string()
}

fn ann() -> TokenOwner {
    TokenOwner { name: "ann".into(), revision: 7 }
}

/// A token with these parts, signed as a service that shares the keys would.
fn made(tokens: &JwtTokens, header: &str, claims: &str) -> String {
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = tokens.active_keys().keys.sign(signed.as_bytes()).expect("a private key");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

const HS256: &str = r#"{"alg":"HS256","typ":"JWT"}"#;
const GOOD: &str = r#"{"username":"ann","revision":7,"exp":4102444800}"#;

#[test]
fn every_method_signs_and_checks() {
    for method in SignMethod::ALL {
        let (private, public) = pair(method);
        let issuer = tokens(method, Some(private), None);
        let token = issuer.issue("ann", 7).expect("a private key");
        assert_eq!(issuer.owner(&token), Ok(ann()), "{method:?}");
        assert_eq!(issuer.owner(&token), Ok(ann()), "{method:?}, remembered");
        let header = token.split('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let header: serde_json::Value = serde_json::from_slice(&header.expect("base64")).expect("JSON");
        assert_eq!(header["alg"], method.name());
        let Some(public) = public else { continue };
        let checker = tokens(method, None, Some(public));
        assert_eq!(checker.owner(&token), Ok(ann()), "{method:?}, by the public key");
        assert!(!checker.can_issue());
        assert_eq!(checker.issue("ann", 7), Err(IssueError::VerifyOnly), "{method:?}");
    }
}

#[test]
fn a_changed_token_is_refused_by_every_method() {
    for method in SignMethod::ALL {
        let jwt = signing(method);
        let token = jwt.issue("ann", 7).expect("a private key");
        let (signed, signature) = token.rsplit_once('.').expect("three parts");
        let (header, _) = signed.split_once('.').expect("three parts");
        let other = URL_SAFE_NO_PAD.encode(r#"{"username":"root","revision":7,"exp":4102444800}"#);
        for changed in
            [format!("{header}.{other}.{signature}"), format!("{signed}."), format!("{signed}.AAAA")]
        {
            assert_eq!(jwt.owner(&changed), Err(InvalidToken::Signature), "{method:?}");
        }
    }
}

#[test]
fn a_method_accepts_no_other() {
    for method in SignMethod::ALL {
        let jwt = signing(method);
        for other in SignMethod::ALL.into_iter().filter(|other| *other != method) {
            let token = signing(other).issue("ann", 7).expect("a private key");
            assert_eq!(
                jwt.owner(&token),
                Err(InvalidToken::OtherAlgorithm),
                "{other:?} where {method:?} is set"
            );
            // The same signature under the right name.
            let renamed = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{}"}}"#, method.name()));
            let rest = token.split_once('.').expect("three parts").1;
            let found = jwt.owner(&format!("{renamed}.{rest}"));
            assert_eq!(found, Err(InvalidToken::Signature), "{other:?} named {method:?}");
        }
    }
}

#[test]
fn a_public_key_is_never_a_secret() {
    let forger = tokens(SignMethod::Hs256, Some("rsa.pub"), None);
    let jwt = tokens(SignMethod::Rs256, None, Some("rsa.pub"));
    let forged = forger.issue("root", 7).expect("a secret");
    assert_eq!(jwt.owner(&forged), Err(InvalidToken::OtherAlgorithm));
    let named_as_rsa = made(&forger, r#"{"alg":"RS256"}"#, GOOD);
    assert_eq!(jwt.owner(&named_as_rsa), Err(InvalidToken::Signature));
}

#[test]
fn tokens_without_a_signature_are_refused() {
    let (header, claims) = (URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(GOOD));
    for method in SignMethod::ALL {
        let found = signing(method).owner(&format!("{header}.{claims}."));
        assert_eq!(found, Err(InvalidToken::OtherAlgorithm), "{method:?}");
    }
    let jwt = signing(SignMethod::Hs256);
    for text in ["", ".", "..", "a.b.c", "a.b.c.d", "abcdefghijklmnop.12", "e30.e30.", "\u{20ac}.\u{20ac}.x"]
    {
        let found = jwt.owner(text);
        assert!(matches!(found, Err(InvalidToken::Malformed)), "{text:?}: {found:?}");
    }
}

#[test]
fn expiry_is_demanded_and_checked_each_time() {
    let jwt = signing(SignMethod::Hs256);
    let token = made(&jwt, HS256, r#"{"username":"ann","revision":7,"exp":1000.5,"nbf":900}"#);
    assert_eq!(jwt.owner_at(&token, 899), Err(InvalidToken::NotYet));
    assert_eq!(jwt.owner_at(&token, 900), Ok(ann()));
    assert_eq!(jwt.owner_at(&token, 1000), Ok(ann()));
    assert_eq!(jwt.owner_at(&token, 1001), Err(InvalidToken::Expired));
    let issued = jwt.issue("ann", 7).expect("a secret");
    assert_eq!(jwt.owner_at(&issued, now_s() + 61), Err(InvalidToken::Expired), "the ttl is 60 s");
}

#[test]
fn claims_are_those_of_etcd() {
    let jwt = signing(SignMethod::Hs256);
    let owner = |claims: &str| jwt.owner(&made(&jwt, HS256, claims));
    assert_eq!(owner(r#"{"username":"ann","revision":7.9,"exp":4102444800,"iss":"x"}"#), Ok(ann()));
    let zero = TokenOwner { name: "".into(), revision: 0 };
    assert_eq!(owner(r#"{"username":"","revision":0,"exp":4102444800}"#), Ok(zero));
    for claims in [
        r#"{"username":"ann","revision":7}"#,
        r#"{"username":"ann","exp":4102444800}"#,
        r#"{"revision":7,"exp":4102444800}"#,
        r#"{"username":1,"revision":7,"exp":4102444800}"#,
        r#"{"username":"ann","revision":"7","exp":4102444800}"#,
        r#"{"username":"ann","revision":-1,"exp":4102444800}"#,
        r#"{"username":"ann","revision":1e19,"exp":4102444800}"#,
        r#"{"username":"ann","username":"root","revision":7,"exp":4102444800}"#,
        "[]",
        "no JSON",
    ] {
        assert_eq!(owner(claims), Err(InvalidToken::Claims), "{claims}");
    }
    let critical = made(&jwt, r#"{"alg":"HS256","crit":["b64"],"b64":false}"#, GOOD);
    assert_eq!(jwt.owner(&critical), Err(InvalidToken::Critical));
}

#[test]
fn keys_are_read_in_each_form() {
    let token = signing(SignMethod::Ps256).issue("ann", 7).expect("a private key");
    for public in ["rsa.pub", "rsa.crt", "rsa.pkcs1.pub"] {
        assert_eq!(tokens(SignMethod::Ps256, None, Some(public)).owner(&token), Ok(ann()), "{public}");
    }
    let other = tokens(SignMethod::Ps256, Some("rsa-other.key"), Some("rsa-other.pub"));
    assert_eq!(other.owner(&token), Err(InvalidToken::Signature), "another key");
}

#[test]
fn keys_that_do_not_fit_are_refused_with_the_reason() {
    let missing = "auth: missing key data";
    assert_eq!(load_error(&options(SignMethod::Rs256, None, None)), missing);
    assert_eq!(load_error(&options(SignMethod::Hs256, None, Some("rsa.pub"))), missing);
    let mismatch = load_error(&options(SignMethod::Rs256, Some("rsa.key"), Some("rsa-other.pub")));
    assert_eq!(mismatch, "auth: public and private keys don't match");
    let absent = load_error(&options(SignMethod::Rs256, Some("absent"), None));
    assert!(absent.starts_with("auth: invalid auth options (--auth-token: "), "{absent}");
    for method in SignMethod::ALL.into_iter().filter(|method| pair(*method).1.is_some()) {
        let (private, public) = pair(method);
        for file in ["rsa.key", "p256.key", "p384.key", "p521.key", "ed25519.key", "hmac.secret", "rsa.crt"] {
            if file != private {
                let problem = load_error(&options(method, Some(file), None));
                assert!(problem.contains("--auth-token: priv-key"), "{method:?} with {file}: {problem}");
            }
        }
        for file in ["rsa.pub", "p256.pub", "p384.pub", "p521.pub", "ed25519.pub", "hmac.secret"] {
            if Some(file) != public {
                let problem = load_error(&options(method, None, Some(file)));
                assert!(problem.contains("--auth-token: pub-key"), "{method:?} with {file}: {problem}");
            }
        }
    }
}

#[test]
fn keys_follow_their_file_and_bad_ones_leave_those_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let install = |name: &str| {
        let new = folder.path().join("new");
        std::fs::copy(key_file(name), &new).expect("a copy");
        std::fs::rename(new, &file).expect("renamed");
    };
    install("rsa.key");
    let ttl = Duration::from_secs(60);
    let method = SignMethod::Rs256;
    let options = JwtOptions { method, public_key: None, private_key: Some(file.clone()), ttl };
    let jwt = JwtTokens::load(&options).expect("good keys");
    let [old, new] = ["rsa.key", "rsa-other.key"]
        .map(|key| tokens(method, Some(key), None).issue("ann", 7).expect("a private key"));
    let found = |token: &str| {
        jwt.follow_files(Instant::now());
        jwt.owner(token)
    };
    assert_eq!((found(&old), found(&new)), (Ok(ann()), Err(InvalidToken::Signature)));
    install("p256.key");
    assert_eq!((found(&old), found(&new)), (Ok(ann()), Err(InvalidToken::Signature)), "a bad file");
    std::fs::remove_file(&file).expect("it was there");
    assert_eq!(found(&old), Ok(ann()), "no file");
    install("rsa-other.key");
    assert_eq!((found(&old), found(&new)), (Err(InvalidToken::Signature), Ok(ann())), "the new key");
}

/// How many tokens were checked with the keys in force.
fn checks(jwt: &JwtTokens) -> usize {
    jwt.active_keys().checks.load(std::sync::atomic::Ordering::Relaxed)
}

/// A token whose signature is wrong; a long one if `padding` is large.
fn forged(method: SignMethod, padding: usize) -> Arc<str> {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{}"}}"#, method.name()));
    let claims = URL_SAFE_NO_PAD.encode(GOOD.replace("ann", &"x".repeat(padding)));
    format!("{header}.{claims}.{}", "A".repeat(176)).into()
}

#[tokio::test]
async fn a_token_is_checked_once_whether_it_is_right_or_wrong() {
    for method in SignMethod::ALL {
        let jwt = Arc::new(signing(method));
        let good: Arc<str> = jwt.issue("ann", 7).expect("a private key").into();
        let tokens = [(good, Ok(ann())), (forged(method, 3), Err(()))]
            .into_iter()
            .chain([(forged(method, 9_000), Err(()))]);
        for (count, (token, expected)) in tokens.enumerate() {
            let is_fast = pair(method).1.is_none();
            assert_eq!(
                jwt.known_owner(&token).is_some(),
                is_fast,
                "{method:?}: only HMAC is checked at once"
            );
            let source = Source::default();
            for _ in 0..2 {
                let found = jwt.check(source, &token).await;
                assert_eq!(found, expected.clone().map_err(|()| TokenRefusal::Invalid), "{method:?}");
                let known = jwt.known_owner(&token).expect("it was checked");
                assert_eq!(known.map_err(drop), expected, "{method:?}");
            }
            assert_eq!(checks(&jwt), count + 1, "{method:?}");
        }
    }
}

#[test]
fn wrong_tokens_displace_no_right_ones() {
    let jwt = signing(SignMethod::Hs256);
    let good = jwt.issue("ann", 7).expect("a secret");
    assert_eq!(jwt.owner(&good), Ok(ann()));
    (0..10_000).for_each(|n| assert!(jwt.owner(&n.to_string()).is_err()));
    let before = checks(&jwt);
    assert_eq!(jwt.owner(&good), Ok(ann()));
    assert_eq!(checks(&jwt), before, "it is remembered");
}

#[tokio::test]
async fn a_source_may_have_a_bounded_number_of_tokens_waiting_and_others_theirs() {
    let jwt = Arc::new(signing(SignMethod::Es512));
    let [flood, other] = ["10.0.0.1", "10.0.0.2"].map(|text| Source::of(text.parse().expect("an address")));
    let waiting: Vec<_> = std::iter::from_fn(|| jwt.sources.enter(flood)).collect();
    let token: Arc<str> = jwt.issue("ann", 7).expect("a private key").into();
    assert_eq!(jwt.check(flood, &token).await, Err(TokenRefusal::TooMany));
    assert_eq!(jwt.check(other, &token).await, Ok(ann()));
    drop(waiting);
    assert_eq!(jwt.check(flood, &token).await, Ok(ann()));
}

#[test]
fn no_call_waits_for_a_file_of_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    std::fs::copy(key_file("rsa.key"), &file).expect("a copy");
    let ttl = Duration::from_secs(60);
    let options =
        JwtOptions { method: SignMethod::Rs256, public_key: None, private_key: Some(file.clone()), ttl };
    let jwt = Arc::new(JwtTokens::load(&options).expect("good keys"));
    std::fs::remove_file(&file).expect("it was there");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, 0o600.into()).expect("a pipe");
    let reading = std::thread::spawn({
        let jwt = jwt.clone();
        move || jwt.follow_files(Instant::now())
    });
    while jwt.look.try_lock().is_some() && !reading.is_finished() {
        std::thread::yield_now();
    }
    let token = jwt.issue("ann", 7).expect("a private key");
    assert_eq!(jwt.owner(&token), Ok(ann()), "while the look waits for a writer of the pipe");
    assert!(!reading.is_finished());
    std::fs::write(&file, "no key").expect("the reader is there");
    reading.join().expect("it ends");
    assert_eq!(jwt.owner(&token), Ok(ann()));
}

#[test]
fn the_same_keys_read_again_keep_what_was_found() {
    let jwt = signing(SignMethod::Rs256);
    let before = jwt.active_keys();
    let method = SignMethod::Rs256;
    let reads =
        |private: &str| ActiveKeys::load(&options(method, Some(private), None)).expect("good keys").keys;
    assert!(reads("rsa.key").same_files_as(&reads("rsa.key")));
    assert!(!reads("rsa.key").same_files_as(&reads("rsa-other.key")));
    assert!(!reads("rsa.key").same_files_as(&before.keys), "those have a public key, too");
}

#[test]
fn errors_show_nothing_of_keys_and_tokens() {
    let secret = std::fs::read_to_string(key_file("hmac.secret")).expect("the secret");
    let problem = load_error(&options(SignMethod::Rs256, Some("hmac.secret"), None));
    assert!(!problem.contains(secret.trim()), "{problem}");
}

#[test]
fn a_bounded_number_of_tokens_is_remembered() {
    let jwt = signing(SignMethod::Hs256);
    for number in 0..5_000 {
        let token = jwt.issue(&format!("user {number}"), 7).expect("a secret");
        assert!(jwt.owner(&token).is_ok());
        assert!(jwt.owner(&number.to_string()).is_err());
    }
    let (signed, refused) = jwt.active_keys().remembered_tokens();
    assert!((2_048..=4_096).contains(&signed), "{signed} that are good");
    assert!((2_048..=4_096).contains(&refused), "{refused} that are not");
}

#[test]
fn a_long_file_of_keys_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secret");
    let ttl = Duration::from_secs(60);
    let method = SignMethod::Hs256;
    let options = JwtOptions { method, public_key: None, private_key: Some(file.clone()), ttl };
    std::fs::write(&file, vec![b's'; 1 << 20]).expect("a file");
    assert!(JwtTokens::load(&options).is_ok());
    std::fs::write(&file, vec![b's'; (1 << 20) + 1]).expect("a file");
    let problem = load_error(&options);
    assert!(problem.contains("it has more than 1048576 bytes"), "{problem}");
}

#[test]
fn half_of_the_cores_check() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(signing(SignMethod::Es256).running.available_permits(), (cores / 2).max(1));
}
