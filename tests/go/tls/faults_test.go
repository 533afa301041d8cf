package tls

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// fault is a certificate that is not good for something, and how both sides learn of it.
type fault struct {
	subject
	// by signs it instead of the authority that is trusted.
	by *authority
	// alert is what the dialler hears, in Go's words; logged is the reason in the log of who refused.
	alert, logged string
}

const hour = time.Hour

// faults are those of a dialler's certificate. Serial number 66 is revoked.
func faults(foreign *authority) map[string]fault {
	return map[string]fault{
		"expired": {subject: subject{begin: -2 * hour, end: -hour}, alert: "expired certificate", logged: "certificate expired"},
		"early":   {subject: subject{begin: hour, end: 2 * hour}, alert: "expired certificate", logged: "certificate not valid yet"},
		"revoked": {subject: subject{serial: 66}, alert: "unknown certificate", logged: "transport: certificate serial 42 revoked"},
		"self-signed": {
			subject: subject{selfSigned: true}, alert: "unknown certificate authority", logged: "UnknownIssuer",
		},
		"of a foreign authority": {by: foreign, alert: "unknown certificate authority", logged: "UnknownIssuer"},
		"for servers alone": {
			subject: subject{usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
			alert:   "unsupported certificate", logged: "certificate does not allow extended key usage for client authentication",
		},
	}
}

// made issues the certificate of a fault; what the fault does not say is as in `good`.
func (f fault) made(a *authority, good subject) tls.Certificate {
	s := f.subject
	s.name, s.file, s.hosts = good.name, good.file, good.hosts
	if s.serial == 0 {
		s.serial = good.serial
	}
	if f.by != nil {
		return f.by.issue(s)
	}
	return a.issue(s)
}

// Each bad certificate of a client is refused with an alert that says what is wrong, and a log line that names it.
func TestAClientHearsWhatIsWrongWithItsCertificateAndTheLogNamesIt(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	alice := subject{name: "alice", hosts: []string{"alice.example"}, serial: 3}
	good := a.issue(alice)
	a.revoke(66)
	flags := append(a.clientFlags("server"), "--client-crl-file="+a.file("crl.der"))
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, TLS: a.client(good)})
	m := c.Members[0]
	for name, f := range faults(foreign) {
		expectRefusal(t, name, m, m.ClientURL, a.client(f.made(a, alice)), f, "client")
	}
	expectRefusal(t, "none", m, m.ClientURL, a.client(), fault{alert: "certificate required", logged: "peer sent no certificates"}, "client")
	// A client refuses the member: its reason is in the log of the member, too.
	named := a.client(good)
	named.ServerName = "other.example"
	if err := refusal(m.ClientURL, named); err == nil || !strings.Contains(err.Error(), "certificate is valid for localhost, not other.example") {
		t.Errorf("a name that the certificate of the member does not have: %v", err)
	}
	for _, text := range []string{`"server-name":"other.example"`, "received fatal alert"} {
		awaitRejection(t, m, "client", text)
	}
}

// refusal is what a client hears that says nothing: one that speaks at once may find the connection closed instead. It
// shows its certificate even if it is not of an authority that the member asks for.
func refusal(endpoint string, config *tls.Config) error {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	if len(config.Certificates) > 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &config.Certificates[0], nil
		}
	}
	connection, err := tls.Dial("tcp", strings.TrimPrefix(endpoint, "https://"), config)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = connection.Read(make([]byte, 1))
	return err
}

// expectRefusal connects, and checks what is heard and what is logged.
func expectRefusal(t *testing.T, name string, m *cluster.Member, url string, config *tls.Config, f fault, side string) {
	t.Helper()
	err := refusal(url, config)
	if err == nil || err.Error() != "remote error: tls: "+f.alert {
		t.Errorf("%s certificate %s: heard %v instead of %q", side, name, err, f.alert)
	}
	awaitRejection(t, m, side, f.logged)
}

// awaitRejection waits for the log line of a rejected connection that says why.
func awaitRejection(t *testing.T, m *cluster.Member, side, why string) {
	t.Helper()
	message := "rejected connection on " + side + " endpoint"
	deadline := time.Now().Add(patience)
	for {
		for line := range strings.Lines(must(m.RunLog())) {
			if strings.Contains(line, message) && strings.Contains(line, why) && strings.Contains(line, `"remote-addr":"127.0.0.1:`) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q with %q", message, why)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A certificate of a server that is not good is refused by its clients; the member serves again with the next good file.
func TestAMemberWithABadCertificateServesAgainOnceTheFileIsGood(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	server := subject{name: "server", hosts: hosts, serial: 2}
	a.issue(server)
	alice := a.client(a.issue(subject{name: "alice", serial: 3}))
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: a.clientFlags("server"), TLS: alice})
	url := c.Members[0].ClientURL
	replaced := func(s subject, by *authority) {
		certificate, key := by.sign(s)
		a.write("server.pem", certificate)
		a.write("server.key", key)
	}
	for name, bad := range map[string]struct {
		subject
		by    *authority
		heard string
	}{
		"expired":   {subject{begin: -2 * hour, end: -hour, hosts: hosts}, a, "certificate has expired or is not yet valid"},
		"foreign":   {subject{hosts: hosts}, foreign, "certificate signed by unknown authority"},
		"elsewhere": {subject{hosts: []string{"127.0.0.77"}}, a, "certificate is valid for 127.0.0.77, not 127.0.0.1"},
		"for clients alone": {
			subject{hosts: hosts, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a, "incompatible key usage",
		},
	} {
		bad.name, bad.serial = "server", 4
		replaced(bad.subject, bad.by)
		await(t, name, func() bool {
			err := handshake(url, alice)
			return err != nil && strings.Contains(err.Error(), bad.heard)
		})
	}
	awaitLogged(t, c.Members[0], "has expired")
	replaced(server, a)
	await(t, "good again", func() bool { return handshake(url, alice) == nil })
}

// await tries until it is so.
func await(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so in time", what)
		}
	}
}

// A member whose certificate is not good takes no part, whichever side dials; both sides log why. It joins the others once its
// file is good, without a restart.
func TestAMemberWithABadPeerCertificateTakesNoPartUntilTheFileIsGood(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "member", hosts: hosts, serial: 3})
	third := subject{name: "member", file: "third", hosts: hosts, serial: 4}
	a.issue(third)
	a.revoke(66)
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, Size: 3, Args: quick, SecurePeers: true,
		Prepare: func(m *cluster.Member, _, _ string) error {
			file := map[bool]string{true: "third", false: "member"}[m.Name == "m3"]
			for _, flag := range append(a.peerFlags(file), "--peer-crl-file="+a.file("crl.der")) {
				m.AddFlag(flag)
			}
			return nil
		},
	})
	m1, m3 := c.Members[0], c.Members[2]
	m3.Kill()
	restarted := func(s subject, by *authority) {
		t.Helper()
		m3.Kill()
		s.name, s.hosts, s.serial = "member", hosts, max(s.serial, 4)
		certificate, key := by.sign(s)
		a.write("third.pem", certificate)
		a.write("third.key", key)
		if err := m3.Start(); err != nil {
			t.Fatal(err)
		}
	}
	restarted(subject{usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a)
	awaitLogged(t, m1, "certificate does not allow extended key usage for server authentication")
	for name, f := range faults(foreign) {
		by := a
		if f.by != nil {
			by = f.by
		}
		restarted(f.subject, by)
		awaitRejection(t, m1, "peer", f.logged)
		awaitLogged(t, m3, "cannot connect to the peer, retrying")
		if strings.Contains(must(m3.RunLog()), "peer became active") {
			t.Errorf("%s: a peer trusts the member", name)
		}
	}
	certificate, key := a.sign(third)
	a.write("third.pem", certificate)
	a.write("third.key", key)
	if err := m3.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}
