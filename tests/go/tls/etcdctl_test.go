package tls

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// commandLine is an `etcdctl`, either etcd's or ours.
type commandLine struct {
	t    *testing.T
	path string
}

// commandLines are etcd's etcdctl and, where Stele is tested, ours.
func commandLines(t *testing.T) map[string]commandLine {
	all := map[string]commandLine{"etcdctl": {t, cluster.ToolPath("etcdctl")}}
	if cluster.IsStele(*bin) {
		// The name it is called by says what it is.
		link := filepath.Join(t.TempDir(), "etcdctl")
		if err := os.Symlink(must(filepath.Abs(*bin)), link); err != nil {
			t.Fatal(err)
		}
		all["stele"] = commandLine{t, link}
	}
	return all
}

// run returns what is printed to either output.
func (c commandLine) run(ctx context.Context, environment []string, words ...string) (string, error) {
	command := exec.CommandContext(ctx, c.path, words...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// usersAndRoles makes root and alice, who has a password and may use /app/ and /copy/, and enables authentication.
func usersAndRoles(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	must(admin.UserAdd(ctx, "root", "of root"))
	must(admin.UserAdd(ctx, "alice", "of alice"))
	for user, role := range map[string]string{"root": "root", "alice": "app"} {
		must(admin.RoleAdd(ctx, role))
		must(admin.UserGrantRole(ctx, user, role))
	}
	for _, prefix := range []string{"/app/", "/copy/"} {
		end := clientv3.GetPrefixRangeEnd(prefix)
		must(admin.RoleGrantPermission(ctx, "app", prefix, end, clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	must(admin.AuthEnable(ctx))
}

// Every flag of TLS and of users, and the variables that stand for them, at a member that demands certificates, has
// users, and issues signed tokens.
func TestEveryFlagOfTLSAndUsersOfEtcdctl(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	root := a.client(a.issue(subject{name: "root", serial: 3}))
	a.issue(subject{name: "alice", serial: 4})
	a.issue(subject{name: "stranger", serial: 5})
	flags := append(a.clientFlags("server"), "--auth-token=jwt,sign-method=ES256,priv-key="+a.file("alice.key"), "--bcrypt-cost=4")
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, TLS: root})
	endpoint := c.Members[0].ClientURL
	admin := connect(t, root, endpoint)
	usersAndRoles(t, admin)
	token := must(admin.Authenticate(t.Context(), "alice", "of alice")).Token

	const denied, wrong = "etcdserver: permission denied", "authentication failed, invalid user ID or password"
	short := "--command-timeout=500ms"
	ca, cert, key := "--cacert="+a.file("ca.pem"), "--cert="+a.file("alice.pem"), "--key="+a.file("alice.key")
	stranger := []string{ca, "--cert=" + a.file("stranger.pem"), "--key=" + a.file("stranger.key")}
	bare := "--endpoints=" + strings.TrimPrefix(endpoint, "https://")
	for name, ctl := range commandLines(t) {
		for _, line := range []struct {
			words []string
			env   []string
			want  string
			fails bool
		}{
			{words: []string{ca, cert, key, "put", "/app/a", "1"}, want: "OK"},
			{words: []string{ca, cert, key, "put", "/other", "1"}, want: denied, fails: true},
			{words: []string{ca, cert, key, "get", "/app/a", "--print-value-only"}, want: "1"},
			{words: []string{cert, key, "--insecure-skip-tls-verify", "get", "/app/a", "--print-value-only"}, want: "1"},
			{words: []string{bare, "--insecure-transport=false", ca, cert, key, "get", "/app/a", "--print-value-only"}, want: "1"},
			{words: []string{"get", "/app/a", "--print-value-only"}, want: "1", env: []string{
				"ETCDCTL_CACERT=" + a.file("ca.pem"), "ETCDCTL_CERT=" + a.file("alice.pem"), "ETCDCTL_KEY=" + a.file("alice.key"),
			}},
			{words: append(stranger, "get", "/app/a"), want: "", fails: true},
			{words: append(stranger, "--user=alice:of alice", "get", "/app/a", "--print-value-only"), want: "1"},
			{words: append(stranger, "--user=alice", "--password=of alice", "get", "/app/a", "--print-value-only"), want: "1"},
			{words: append(stranger, "get", "/app/a", "--print-value-only"), want: "1", env: []string{"ETCDCTL_USER=alice:of alice"}},
			{words: append(stranger, "--user=alice:of bob", "get", "/app/a"), want: wrong, fails: true},
			{words: append(stranger, "--user=alice:of alice", "put", "/other", "1"), want: denied, fails: true},
			{words: append(stranger, "--auth-jwt-token="+token, "get", "/app/a", "--print-value-only"), want: "1"},
			{words: append(stranger, "--auth-jwt-token="+token, "put", "/other", "1"), want: denied, fails: true},
			{words: append(stranger, "--auth-jwt-token="+token[:len(token)-4], "get", "/app/a"), want: "invalid auth token", fails: true},
			{words: []string{ca, cert, key, "--user=root:of root", "user", "list"}, want: "alice\nroot"},
			{words: []string{ca, cert, key, "--user=root:of root", "endpoint", "health", "--cluster"}, want: "is healthy"},
			{words: []string{ca, short, "get", "/app/a"}, want: "context deadline exceeded", fails: true},
			{words: []string{"--cacert=" + foreign.file("ca.pem"), cert, key, short, "get", "/app/a"}, want: "context deadline exceeded", fails: true},
		} {
			words := line.words
			if words[0] != bare {
				words = append([]string{"--endpoints=" + endpoint}, words...)
			}
			out, err := ctl.run(t.Context(), line.env, words...)
			if (err != nil) != line.fails || !strings.Contains(out, line.want) {
				t.Errorf("%s %v %v: %v: %s", name, line.env, words, err, out)
			}
		}
		copied := "/copy/" + name + "/"
		mirrored(t, ctl, admin, copied+"a", "--endpoints="+endpoint, ca, cert, key, "--user=alice:of alice", "make-mirror",
			"--prefix=/app/", "--dest-prefix="+copied, "--dest-insecure-transport=false", "--dest-cacert="+a.file("ca.pem"),
			"--dest-cert="+a.file("stranger.pem"), "--dest-key="+a.file("stranger.key"), "--dest-user=alice",
			"--dest-password=of alice", endpoint)
	}
}

// mirrored runs make-mirror until the copy is there.
func mirrored(t *testing.T, ctl commandLine, admin *clientv3.Client, copied string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		out, _ := ctl.run(ctx, nil, words...)
		ended <- out
	}()
	var found *clientv3.GetResponse
	for ctx.Err() == nil && (found == nil || found.Count == 0) {
		found = must(admin.Get(t.Context(), copied))
	}
	isLate := ctx.Err() != nil
	cancel()
	if out := <-ended; isLate {
		t.Errorf("%s copied nothing: %s", ctl.path, out)
	}
}
