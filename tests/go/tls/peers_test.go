package tls

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

var rotations = flag.Int("rotations", 1, "how often the authority is replaced under load")

// Short timeouts, so that an election does not take a second.
var quick = []string{"--heartbeat-interval=20", "--election-timeout=300"}

// secured starts members with mutual TLS towards clients and among each other.
func secured(t *testing.T, a *authority, size int) (*cluster.Cluster, *clientv3.Client) {
	t.Helper()
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	a.issue(subject{name: "member", hosts: hosts, serial: 3})
	root := a.issue(subject{name: "root", serial: 4})
	flags := append(append(a.clientFlags("server"), a.peerFlags("member")...), quick...)
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Size: size, Args: flags, TLS: a.client(root), SecurePeers: true,
	})
	return c, connect(t, a.client(root), c.Endpoints()...)
}

func TestAClusterWithMutualTLSSurvivesItsLeadersAndGrows(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	c, client := secured(t, a, 3)
	large := strings.Repeat("x", 1<<20)
	for i := range 5 {
		if _, err := client.Put(t.Context(), fmt.Sprint("large", i), large); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range c.Members {
		m.Kill()
		if err := cluster.PutUntilAnswered(t.Context(), client, "without-"+m.Name, "value"); err != nil {
			t.Fatal(err)
		}
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A joiner asks the others over https, and receives what it lacks.
	joiner, err := c.Layout(*bin, append(append(a.clientFlags("server"), a.peerFlags("member")...), quick...)...)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		_, err = client.MemberAdd(t.Context(), []string{joiner.PeerURL})
		if err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	peers := map[string]string{}
	for _, m := range c.Members {
		peers[m.Name] = m.PeerURL
	}
	joiner.JoinExisting(peers)
	if err := joiner.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	own := connect(t, a.client(a.load("root")), joiner.ClientURL)
	response, err := own.Get(t.Context(), "large4")
	if err != nil || len(response.Kvs) != 1 || len(response.Kvs[0].Value) != len(large) {
		t.Fatalf("the joiner does not have what the others have: %v", err)
	}
}

// Who has no certificate for its address, or one of another authority, hears nothing from a member.
func TestAPeerIsTrustedOnlyWithACertificateForItsAddress(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "member", hosts: hosts, serial: 3})
	a.revoke(7)
	flags := append(a.peerFlags("member"), "--peer-crl-file="+a.file("crl.der"), "--peer-cert-allowed-cn=member")
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, SecurePeers: true})
	peer := c.Members[0].PeerURL
	for _, good := range [][]string{hosts, {"localhost"}, {}} {
		config := a.client(a.issue(subject{name: "member", file: "dialler", hosts: good, serial: 4}))
		if err := handshake(peer, config); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	elsewhere := subject{name: "member", file: "dialler", hosts: []string{"127.0.0.77"}, serial: 5}
	for name, config := range map[string]*tls.Config{
		"none":       a.client(),
		"elsewhere":  a.client(a.issue(elsewhere)),
		"other name": a.client(a.issue(subject{name: "other", hosts: hosts, serial: 6})),
		"revoked":    a.client(a.issue(subject{name: "member", file: "dialler", hosts: hosts, serial: 7})),
		"foreign":    a.client(foreign.issue(subject{name: "member", hosts: hosts, serial: 8})),
	} {
		if err := handshake(peer, config); err == nil {
			t.Errorf("%s: it was served", name)
		}
	}
	for _, text := range []string{"rejected connection on peer endpoint", "x509: certificate is valid for 127.0.0.77, not 127.0.0.1"} {
		awaitLogged(t, c.Members[0], text)
	}
	// Of the same authority, for the address that it comes from, but for no host of a member.
	named := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: append(a.peerFlags("member"), "--peer-cert-allowed-hostname=member.example"), SecurePeers: true,
	})
	for host, isServed := range map[string]bool{"member.example": true, "other.example": false} {
		dialler := subject{name: "member", file: "dialler", hosts: append([]string{host}, hosts...), serial: 9}
		if err := handshake(named.Members[0].PeerURL, a.client(a.issue(dialler))); (err == nil) != isServed {
			t.Errorf("--peer-cert-allowed-hostname=member.example, a certificate for %s: %v", host, err)
		}
	}
	// etcd's flag for members behind an address translation.
	skipping := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: append(a.peerFlags("member"), "--peer-skip-client-san-verification"), SecurePeers: true,
	})
	if err := handshake(skipping.Members[0].PeerURL, a.client(a.issue(elsewhere))); err != nil {
		t.Error(err)
	}
}

// awaitLogged waits until a member has logged a text: who is refused may learn of it before the line is written.
func awaitLogged(t *testing.T, m *cluster.Member, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(must(m.RunLog()), text) {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not have %q", text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// credentials are what a client that dials for each call trusts and shows at the time.
type credentials struct {
	sync.RWMutex
	config *tls.Config
}

// replace waits until calls with the old ones have ended.
func (c *credentials) replace(config *tls.Config) {
	c.Lock()
	defer c.Unlock()
	c.config = config
}

// callOnce dials, puts a key, and closes the connection.
func (c *credentials) callOnce(ctx context.Context, endpoints []string) error {
	c.RLock()
	defer c.RUnlock()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: c.config, DialTimeout: patience})
	if err != nil {
		return err
	}
	defer client.Close()
	return put(ctx, client, "fresh")
}

// load calls once, and then until it is stopped; it gives the number of calls and the first that failed.
func load(t *testing.T, call func() error) (stop func() (int, error)) {
	t.Helper()
	// A client that has not connected before would meet certificates that it does not know yet.
	if err := call(); err != nil {
		t.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan error, 1)
	calls := 1
	go func() {
		for {
			select {
			case <-done:
				ended <- nil
				return
			default:
			}
			if err := call(); err != nil {
				ended <- err
				return
			}
			calls++
		}
	}()
	return func() (int, error) {
		close(done)
		err := <-ended
		return calls, err
	}
}

// The authority and everything that it issued are replaced while clients call: on connections that stay open, and on
// a new one for each call. No call may fail.
func TestARotationUnderLoadLosesNoCall(t *testing.T) {
	a := newAuthority(t, "first")
	c, client := secured(t, a, 3)
	old := a.load("root")
	current := &credentials{config: a.client(old)}
	stopSteady := load(t, func() error { return put(t.Context(), client, "steady") })
	stopFresh := load(t, func() error { return current.callOnce(t.Context(), c.Endpoints()) })
	for range *rotations {
		next := newAuthority(t, "next")
		next.dir = a.dir
		a.write("ca.pem", append(append([]byte{}, a.pem...), next.pem...))
		root := next.issue(subject{name: "root", serial: 4})
		both := next.client(root)
		both.RootCAs.AddCert(a.certificate)
		current.replace(both)
		next.issue(subject{name: "server", hosts: hosts, serial: 2})
		next.issue(subject{name: "member", hosts: hosts, serial: 3})
		for _, m := range c.Members {
			// A handshake beside the one that reads the files has what was in force before.
			deadline := time.Now().Add(patience)
			err := handshake(m.ClientURL, next.client(root))
			for err != nil && time.Now().Before(deadline) {
				err = handshake(m.ClientURL, next.client(root))
			}
			if err != nil {
				t.Errorf("%s does not show its new certificate: %v", m.Name, err)
			}
		}
		current.replace(next.client(root))
		next.write("ca.pem", next.pem)
		trusting := next.client(old)
		deadline := time.Now().Add(patience)
		for handshake(c.Members[0].ClientURL, trusting) == nil {
			if time.Now().After(deadline) {
				t.Fatal("a certificate of the authority before is served")
			}
		}
		a, old = next, root
	}
	for name, stop := range map[string]func() (int, error){"steady": stopSteady, "fresh": stopFresh} {
		if calls, err := stop(); err != nil || calls == 0 {
			t.Errorf("%s: %d calls, then %v", name, calls, err)
		}
	}
	// Members meet each other with what they have now.
	c.UseTLS(a.client(old))
	for _, m := range c.Members[:2] {
		m.Kill()
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.PutUntilAnswered(t.Context(), connect(t, a.client(old), c.Endpoints()...), "after", "value"); err != nil {
		t.Fatal(err)
	}
}
