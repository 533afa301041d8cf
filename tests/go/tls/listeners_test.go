package tls

import (
	"crypto/tls"
	"net/url"
	"strings"
	"testing"

	"stele.test/cluster"
)

// The flags of members count on every peer URL.
func TestEachListenerOfPeersDemandsGoodCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "member", hosts: append([]string{"127.1.1.1", "127.1.1.2"}, hosts...), serial: 2})
	good := a.issue(subject{name: "member", file: "good", hosts: hosts, serial: 3})
	revoked := a.issue(subject{name: "member", file: "revoked", hosts: hosts, serial: 4})
	foreign := newAuthority(t, "theirs").issue(subject{name: "member", hosts: hosts, serial: 5})
	a.revoke(4)
	var urls []string
	cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: append(a.peerFlags("member"), "--peer-crl-file="+a.file("crl.der")), SecurePeers: true,
		Prepare: func(m *cluster.Member, _, _ string) error {
			// The port is this test's on every loopback address.
			port := must(url.Parse(m.PeerURL)).Port()
			urls = []string{m.PeerURL, "https://127.1.1.1:" + port, "https://127.1.1.2:" + port}
			m.AddFlag("--listen-peer-urls=" + strings.Join(urls, ","))
			return nil
		},
	})
	for _, peer := range urls {
		if err := handshake(peer, a.client(good)); err != nil {
			t.Errorf("%s, a good certificate: %v", peer, err)
		}
		for name, config := range map[string]*tls.Config{"none": a.client(), "revoked": a.client(revoked), "foreign": a.client(foreign)} {
			if err := handshake(peer, config); err == nil {
				t.Errorf("%s, certificate %s: it was served", peer, name)
			}
		}
	}
}

// The flags of clients count on every listener of their side, not on the first client URL alone.
func TestEachListenerOfClientsDemandsGoodCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	own := map[string]string{"first client URL": "127.1.1.1", "second client URL": "127.1.1.2", "metrics": "127.1.1.3"}
	named := hosts
	for _, host := range own {
		named = append(named, host)
	}
	a.issue(subject{name: "server", hosts: named, serial: 2})
	alice := a.issue(subject{name: "alice", serial: 3})
	revoked := a.issue(subject{name: "bob", serial: 4})
	foreign := newAuthority(t, "theirs").issue(subject{name: "alice", serial: 5})
	a.revoke(4)
	addresses := make(map[string]string)
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Args: append(a.clientFlags("server"), "--client-crl-file="+a.file("crl.der")), TLS: a.client(alice),
		Prepare: func(m *cluster.Member, _, _ string) error {
			// The port is this test's on every loopback address.
			port := must(url.Parse(m.ClientURL)).Port()
			for name, host := range own {
				addresses[name] = host + ":" + port
			}
			m.AddFlag("--listen-client-urls=https://" + addresses["first client URL"] + ",https://" + addresses["second client URL"])
			m.AddFlag("--listen-metrics-urls=https://" + addresses["metrics"])
			// The rig asks over HTTP whether the member is ready.
			m.AddFlag("--listen-client-http-urls=" + m.ClientURL)
			return nil
		},
	})
	addresses["HTTP"] = must(url.Parse(c.Members[0].ClientURL)).Host
	for name, address := range addresses {
		for shown, ask := range map[string]struct {
			config *tls.Config
			served bool
		}{
			"alice's": {a.client(alice), true},
			"none":    {a.client(), false},
			"revoked": {a.client(revoked), false},
			"foreign": {a.client(foreign), false},
		} {
			// Over TLS 1.2 the handshake of a client ends after the member's check.
			ask.config.MaxVersion = tls.VersionTLS12
			connection, err := tls.Dial("tcp", address, ask.config)
			if (err == nil) != ask.served {
				t.Errorf("%s, certificate %s: %v", name, shown, err)
			}
			if err == nil {
				connection.Close()
			}
		}
	}
}
