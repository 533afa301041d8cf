package tls

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

const patience = 60 * time.Second

// hosts are those of every listener of these tests.
var hosts = []string{"127.0.0.1", "localhost"}

func connect(t testing.TB, config *tls.Config, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func put(ctx context.Context, client *clientv3.Client, key string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := client.Put(ctx, key, "value")
	return err
}

// handshake says whether a member lets this client in: over TLS 1.3 that shows when something is read.
func handshake(endpoint string, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(endpoint + "/version")
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestOnlyClientsWithGoodCertificatesAreServed(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	alice := a.issue(subject{name: "alice", hosts: []string{"alice.example"}, serial: 3})
	a.revoke(9)
	flags := append(a.clientFlags("server"), "--client-crl-file="+a.file("crl.der"),
		"--client-cert-allowed-hostname=alice.example,carol.example")
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, TLS: a.client(alice)})
	endpoint := c.Members[0].ClientURL

	if err := put(t.Context(), connect(t, a.client(alice), endpoint), "key"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(cluster.ToolPath("etcdctl"), "--endpoints="+endpoint, "--cacert="+a.file("ca.pem"),
		"--cert="+a.file("alice.pem"), "--key="+a.file("alice.key"), "get", "key", "--print-value-only").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "value" {
		t.Fatalf("etcdctl: %v: %s", err, out)
	}
	bad := map[string]*tls.Config{
		"none":        a.client(),
		"not allowed": a.client(a.issue(subject{name: "bob", hosts: []string{"bob.example"}, serial: 4})),
		"expired":     a.client(a.issue(subject{name: "x", hosts: []string{"alice.example"}, serial: 5, begin: -2 * time.Hour, end: -time.Hour})),
		"early":       a.client(a.issue(subject{name: "x", hosts: []string{"alice.example"}, serial: 6, begin: time.Hour, end: 2 * time.Hour})),
		"self-signed": a.client(a.issue(subject{name: "x", hosts: []string{"alice.example"}, serial: 7, selfSigned: true})),
		"foreign":     a.client(foreign.issue(subject{name: "alice", hosts: []string{"alice.example"}, serial: 8})),
		"revoked":     a.client(a.issue(subject{name: "x", hosts: []string{"alice.example"}, serial: 9})),
	}
	for name, config := range bad {
		if err := handshake(endpoint, config); err == nil {
			t.Errorf("%s: it was served", name)
		}
	}
	if err := handshake(strings.Replace(endpoint, "https", "http", 1), a.client(alice)); err == nil {
		t.Error("a client in the clear was served")
	}
	if err := handshake(endpoint, foreign.client(alice)); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a client that trusts others only: %v", err)
	}
	for _, text := range []string{
		"rejected connection on client endpoint", "remote-addr", "server-name", "dns-names",
		"transport: certificate serial 09 revoked", "client certificate authentication failed",
	} {
		awaitLogged(t, c.Members[0], text)
	}
	// A certificate that is revoked while the member runs is refused from the next handshake on.
	a.revoke(3, 9)
	if err := handshake(endpoint, a.client(alice)); err == nil {
		t.Error("a certificate that has just been revoked was served")
	}
}

func TestVersionsAndSuites(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl")
	}
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	flags := []string{
		"--cert-file=" + a.file("server.pem"), "--key-file=" + a.file("server.key"),
		"--cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256",
	}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, TLS: a.client()})
	address := strings.TrimPrefix(c.Members[0].ClientURL, "https://")
	for _, ask := range []struct {
		args []string
		want string
	}{
		{[]string{"-tls1_3"}, "TLS_AES_128_GCM_SHA256"},
		{[]string{"-tls1_2"}, "ECDHE-ECDSA-AES256-GCM-SHA384"},
		{[]string{"-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"}, ""},
		{[]string{"-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"}, ""},
		{[]string{"-tls1_1", "-cipher", "ALL@SECLEVEL=0"}, ""},
	} {
		args := append([]string{"s_client", "-connect", address, "-servername", "localhost", "-CAfile", a.file("ca.pem"),
			"-verify_return_error", "-alpn", "h2"}, ask.args...)
		out, err := exec.Command(openssl, args...).CombinedOutput()
		served := err == nil && strings.Contains(string(out), "Cipher is "+ask.want) &&
			strings.Contains(string(out), "ALPN protocol: h2")
		if served != (ask.want != "") {
			t.Errorf("%v: served %v: %s", ask.args, served, out)
		}
	}
}

func TestBothSchemesShareAnAddressAndGeneratedCertificatesAreKept(t *testing.T) {
	t.Parallel()
	var sock string
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: []string{"--auto-tls", "--peer-auto-tls"}, SecurePeers: true,
		TLS: &tls.Config{InsecureSkipVerify: true},
		Prepare: func(m *cluster.Member, _, _ string) error {
			sock = filepath.Join(filepath.Dir(m.DataDir), "s")
			clear := strings.Replace(m.ClientURL, "https", "http", 1)
			m.AddFlag("--listen-client-urls=" + strings.Join([]string{m.ClientURL, clear, "unix://" + sock, "unixs://" + sock}, ","))
			return nil
		},
	})
	m := c.Members[0]
	insecure := &tls.Config{InsecureSkipVerify: true}
	for endpoint, config := range map[string]*tls.Config{
		m.ClientURL: insecure, strings.Replace(m.ClientURL, "https", "http", 1): nil,
		"unix://" + sock: nil, "unixs://" + sock: insecure,
	} {
		if err := put(t.Context(), connect(t, config, endpoint), "key"); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	checkModes(t, m.DataDir)
	certificate := filepath.Join(m.DataDir, "fixtures", "client", "cert.pem")
	before := must(os.ReadFile(certificate))
	m.Kill()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := must(os.ReadFile(certificate)); string(after) != string(before) {
		t.Error("the certificate was made again")
	}
}

// checkModes checks that a data directory and all below is for its owner alone.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // A file that was freed meanwhile.
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
