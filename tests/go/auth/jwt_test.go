package auth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// keyFiles makes a key for a method; returns the options that name its private and its public half.
func keyFiles(t *testing.T, method string) (private, public string) {
	t.Helper()
	write := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var key crypto.Signer
	var err error
	switch {
	case strings.HasPrefix(method, "HS"):
		return ",priv-key=" + write("secret", []byte("a secret of the tests\n")), ""
	case method == "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case method == "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case method == "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case method == "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	private = write("private", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	public = write("public", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}))
	return ",priv-key=" + private, ",pub-key=" + public
}

// signedPair is Stele and etcd, with the same users and auth enabled, so at the same auth revision.
func signedPair(t *testing.T, options string) (stele, etcd *server) {
	t.Helper()
	both := authpb.Permission_READWRITE
	var pair []*server
	for _, binary := range []string{*bin, cluster.EtcdPath()} {
		s := start(t, binary, 1, "--auth-token="+options)[0]
		s.run(userAdd("", "root", "r"), roleAdd("", "root"), grant("", "root", "root"),
			userAdd("", "ann", "a"), roleAdd("", "r"), permit("", "r", both, "a", "c"), grant("", "ann", "r"), enable(""))
		pair = append(pair, s)
	}
	return pair[0], pair[1]
}

// compared makes the same calls at both, and expects the same answers.
func compared(t *testing.T, stele, etcd *server, what string, steps ...step) {
	t.Helper()
	for _, step := range steps {
		expected, found := outcome(step.call(etcd)), outcome(step.call(stele))
		if found != expected {
			t.Errorf("%s: %s\n  etcd  %s\n  Stele %s", what, step.what, expected, found)
		}
	}
}

// TestSignedTokensOfEitherServeBoth lets each accept what the other has issued, for each kind of key.
func TestSignedTokensOfEitherServeBoth(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS384"} {
		t.Run(method, func(t *testing.T) {
			private, public := keyFiles(t, method)
			stele, etcd := signedPair(t, "jwt,ttl=10m,sign-method="+method+private+public)
			for _, issuer := range []*server{stele, etcd} {
				issuer.run(login("ann", "a"), login("root", "r"))
				for _, s := range []*server{stele, etcd} {
					s.tokens["ann"], s.tokens["root"] = issuer.tokens["ann"], issuer.tokens["root"]
					s.run(put("ann", "a"), get("ann", "a", ""), userList("root"))
					expect(t, "a key of others", s.put("ann", "x"), denied)
				}
			}
			compared(t, stele, etcd, "tokens", login("ann", "wrong"), login("none", "a"), watchBegins("ann", "a", ""),
				watchBegins("ann", "x", ""), authStatus("root"), leaseGrant("ann", 7), put("ann", "b", attached(7)))
			// A change of users makes the tokens old; the role root is looked up whatever the revision.
			compared(t, stele, etcd, "older tokens", userAdd("root", "bob", "b"), put("ann", "a"), get("ann", "a", ""),
				put("root", "a"), get("root", "a", ""), userList("root"), roleAdd("root", "s"), leaseRevoke("ann", 7),
				watchBegins("ann", "a", ""), login("ann", "a"), put("ann", "a"), get("ann", "a", ""))
		})
	}
}

// TestAPublicKeyIssuesNoTokens has members that only check, and tokens from one that has the private key.
func TestAPublicKeyIssuesNoTokens(t *testing.T) {
	t.Parallel()
	private, public := keyFiles(t, "RS256")
	stele, etcd := signedPair(t, "jwt,sign-method=RS256"+public)
	issuer, _ := signedPair(t, "jwt,sign-method=RS256"+private)
	compared(t, stele, etcd, "verify-only", login("ann", "a"), login("ann", "wrong"))
	_, err := stele.login("ann", "a")
	expect(t, "a token of a public key", err, "auth: token signing attempted with verify-only key")
	issuer.run(login("ann", "a"))
	stele.tokens["ann"], etcd.tokens["ann"] = issuer.tokens["ann"], issuer.tokens["ann"]
	compared(t, stele, etcd, "tokens of another", put("ann", "a"), get("ann", "a", ""), put("ann", "x"))
}

// TestASignedTokenIsGoodOnEveryMemberAtOnce uses tokens at members that may not have applied the change before them.
func TestASignedTokenIsGoodOnEveryMemberAtOnce(t *testing.T) {
	t.Parallel()
	private, _ := keyFiles(t, "EdDSA")
	servers := enabled(t, 3, "--auth-token=jwt,sign-method=EdDSA"+private)
	servers[0].run(leaseGrant("ann", 7), put("ann", "a", attached(7)))
	firstUse := []func(s *server){
		func(s *server) { s.mustWatch("ann", "a") },
		func(s *server) { s.run(keepAlive("ann", 7)) },
		func(s *server) { s.run(leases("ann")) },
		func(s *server) { s.run(leaseKeys("ann", 7)) },
	}
	for i := range 10 {
		servers[0].run(userAdd("root", fmt.Sprint("user", i), "p"), login("ann", "the password of ann"))
		for _, s := range servers {
			s.run(get("ann", "a", ""), put("ann", "a"))
		}
		servers[0].run(userAdd("root", fmt.Sprint("other", i), "p"), login("ann", "the password of ann"))
		for _, s := range servers {
			firstUse[i%len(firstUse)](s)
		}
	}
	mayReadWhatWasGrantedToTheLagging(t, servers)
	// No member remembers a token, so it outlives a restart.
	first := servers[0].cluster.Members[0]
	first.Kill()
	if err := first.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	restarted := connected(t, servers[0].cluster)
	restarted.tokens = servers[0].tokens
	restarted.run(get("ann", "a", ""))
}

// mustWatch creates a watch that must be permitted.
func (s *server) mustWatch(user, key string) {
	s.t.Helper()
	response := must[*pb.WatchResponse](s.t)(s.watch(user, &pb.WatchCreateRequest{Key: []byte(key)}).Recv())
	if !response.Created || response.Canceled {
		s.t.Errorf("%s watches %s: %v", user, key, response)
	}
}

// mayReadWhatWasGrantedToTheLagging stops a follower, grants a role, and uses it at that follower as it goes on.
func mayReadWhatWasGrantedToTheLagging(t *testing.T, servers []*server) {
	t.Helper()
	leader, _ := servers[0].leader()
	lagging := slices.IndexFunc(servers, func(s *server) bool { _, own := s.leader(); return own != leader })
	s, other, member := servers[lagging], servers[(lagging+1)%3], servers[0].cluster.Members[lagging]
	both := authpb.Permission_READWRITE
	other.run(roleAdd("root", "late"), permit("root", "late", both, "x", ""), login("root", "the password of root"),
		leaseGrant("root", 8), put("root", "x", attached(8)))
	s.run(get("root", "x", ""))
	if err := member.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer member.Thaw()
	other.run(grant("root", "ann", "late"), login("ann", "the password of ann"))
	var calls sync.WaitGroup
	for _, call := range []func(){
		func() { s.mustWatch("ann", "x") },
		func() {
			if answer, err := keepAlive("ann", 8).call(s); err != nil {
				t.Errorf("keep alive: %v, %v", answer, err)
			}
		},
	} {
		calls.Go(call)
	}
	// The requests are in its sockets before it goes on; if not, they find it up to date, and the test has less to find.
	time.Sleep(50 * time.Millisecond)
	if err := member.Thaw(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
}

// signed is a token with these parts, and an HMAC with a secret.
func signed(secret, header, claims string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TestForgedAndOddTokens plays tokens to both that another program has made.
func TestForgedAndOddTokens(t *testing.T) {
	t.Parallel()
	private, _ := keyFiles(t, "HS256")
	stele, etcd := signedPair(t, "jwt,sign-method=HS256"+private)
	const secret, header = "a secret of the tests\n", `{"alg":"HS256","typ":"JWT"}`
	status := must[*pb.AuthStatusResponse](t)(stele.auth().AuthStatus(stele.as(""), &pb.AuthStatusRequest{}))
	now := time.Now().Unix()
	claims := func(name string, revision any, expires int64) string {
		return fmt.Sprintf(`{"username":%q,"revision":%v,"exp":%d}`, name, revision, expires)
	}
	good, later := status.AuthRevision, now+600
	none := strings.TrimRight(signed(secret, `{"alg":"none"}`, claims("root", good, later)), "=")
	cases := map[string]string{
		"a good one":             signed(secret, header, claims("ann", good, later)),
		"root's":                 signed(secret, header, claims("root", good, later)),
		"a fraction":             signed(secret, header, claims("ann", fmt.Sprintf("%d.5", good), later)),
		"of revision 0":          signed(secret, header, claims("ann", 0, later)),
		"root's of revision 0":   signed(secret, header, claims("root", 0, later)),
		"an older one":           signed(secret, header, claims("ann", good-1, later)),
		"one of the future":      signed(secret, header, claims("ann", good+1000, later)),
		"without a revision":     signed(secret, header, fmt.Sprintf(`{"username":"ann","exp":%d}`, later)),
		"without a name":         signed(secret, header, fmt.Sprintf(`{"revision":%d,"exp":%d}`, good, later)),
		"of an empty name":       signed(secret, header, claims("", good, later)),
		"of no such user":        signed(secret, header, claims("none", good, later)),
		"expired":                signed(secret, header, claims("ann", good, now-10)),
		"not valid yet":          signed(secret, header, fmt.Sprintf(`{"username":"ann","revision":%d,"exp":%d,"nbf":%d}`, good, later, later)),
		"another secret":         signed("another secret", header, claims("ann", good, later)),
		"alg none":               none[:strings.LastIndex(none, ".")+1],
		"alg none, signed":       none,
		"another algorithm":      signed(secret, `{"alg":"HS512"}`, claims("ann", good, later)),
		"a name of no method":    signed(secret, `{"alg":"XX"}`, claims("ann", good, later)),
		"a simple token":         "abcdefghijklmnop.12",
		"no token":               "x",
		"three parts of garbage": "a.b.c",
	}
	for name, token := range cases {
		stele.tokens["x"], etcd.tokens["x"] = token, token
		compared(t, stele, etcd, name, put("x", "a"), get("x", "a", ""), put("x", "x"), userList("x"), userGet("x", "ann"),
			watchBegins("x", "a", ""), roleGet("x", "r"))
		compared(t, stele, etcd, name, forAnyUser("x")...)
	}
	stele.tokens["x"] = signed(secret, header, fmt.Sprintf(`{"username":"ann","revision":%d}`, good))
	expect(t, "a token that never expires, which etcd takes", stele.put("x", "a"), invalid)
}

// TestBadTokenOptionsAreRefusedAtTheStart expects etcd's texts, and an end before anything is created.
func TestBadTokenOptionsAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	private, public := keyFiles(t, "RS256")
	_, other := keyFiles(t, "RS256")
	for options, text := range map[string]string{
		"jwt":                                     "auth: invalid auth options",
		"jwt,sign-method=RS1":                     "auth: invalid auth options",
		"jwt,sign-method=RS256":                   "auth: missing key data",
		"jwt,sign-method=HS256" + public:          "auth: missing key data",
		"jwt,sign-method=RS256,priv-key=/none":    "auth: invalid auth options",
		"jwt,sign-method=RS256" + private + other: "auth: public and private keys don't match",
	} {
		for _, binary := range []string{*bin, cluster.EtcdPath()} {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			data := filepath.Join(t.TempDir(), "data")
			command := exec.CommandContext(ctx, binary, "--data-dir="+data, "--auth-token="+options,
				"--listen-client-urls=http://127.0.0.1:0", "--advertise-client-urls=http://127.0.0.1:0",
				"--listen-peer-urls=http://127.0.0.1:0")
			output, err := command.CombinedOutput()
			cancel()
			if err == nil || ctx.Err() == context.DeadlineExceeded || !bytes.Contains(output, []byte(text)) {
				t.Errorf("%s, %q: %v instead of %q\n%s", binary, options, err, text, output)
			}
			if _, err := os.Stat(data); binary == *bin && !os.IsNotExist(err) {
				t.Errorf("%q: the data directory exists (%v)", options, err)
			}
		}
	}
}

// TestNewKeysOfTokensCountWhenTheFileIsReplaced replaces a key as the guide says, by something that is none and by another one.
func TestNewKeysOfTokensCountWhenTheFileIsReplaced(t *testing.T) {
	private, _ := keyFiles(t, "ES256")
	next, _ := keyFiles(t, "ES256")
	path, nextPath := strings.TrimPrefix(private, ",priv-key="), strings.TrimPrefix(next, ",priv-key=")
	s := enabled(t, 1, "--auth-token=jwt,sign-method=ES256"+private)[0]
	until := func(what string, isSo func() bool) {
		t.Helper()
		for deadline := time.Now().Add(callTimeout); !isSo(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not so in time", what)
			}
		}
	}
	replace := func(from string) {
		t.Helper()
		if err := os.Rename(from, path); err != nil {
			t.Fatal(err)
		}
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	replace(garbage)
	until("the log names the file", func() bool {
		for line := range strings.Lines(must[string](t)(s.cluster.Members[0].RunLog())) {
			if strings.Contains(line, "cannot reload the keys of signed tokens") && strings.Contains(line, path) {
				return true
			}
		}
		return false
	})
	s.run(put("ann", "a"), login("ann", "the password of ann"), put("ann", "a"))
	old := s.tokens["ann"]
	replace(nextPath)
	until("the old token is refused", func() bool { return s.put("ann", "a") != nil })
	expect(t, "a token of the old key", s.put("ann", "a"), invalid)
	s.run(login("ann", "the password of ann"), put("ann", "a"))
	s.tokens["ann"] = old
	expect(t, "a token of the old key, beside one of the new", s.put("ann", "a"), invalid)
}
