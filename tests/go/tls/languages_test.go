package tls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"strings"
	"testing"

	"stele.test/cluster"
	"stele.test/interop"
)

var languages = flag.String("languages", "", "other languages whose clients use TLS, certificates and tokens: python, node, java; their libraries are fetched")

// keep8 writes the key of a certificate as NAME.pk8, which is the form that Java's library reads.
func (a *authority) keep8(name string, certificate tls.Certificate) {
	key := must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))
	a.write(name+".pk8", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
}

// TestOtherLanguages runs the programs `secure` of tests/interop: certificates that name users, tokens, and what is
// refused.
func TestOtherLanguages(t *testing.T) {
	if *languages == "" {
		t.Skip("needs -languages, and the network")
	}
	a := newAuthority(t, "ours")
	a.write("foreign.pem", newAuthority(t, "theirs").pem)
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	root := a.client(a.issue(subject{name: "root", serial: 3}))
	for serial, name := range []string{"alice", "stranger", "revoked"} {
		a.keep8(name, a.issue(subject{name: name, serial: int64(4 + serial)}))
	}
	a.revoke(6)
	flags := append(a.clientFlags("server"), "--client-crl-file="+a.file("crl.der"), "--bcrypt-cost=4", "--log-level=error")
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: flags, TLS: root})
	usersAndRoles(t, connect(t, root, c.Endpoints()...))
	for _, language := range strings.Split(*languages, ",") {
		t.Run(language, func(t *testing.T) {
			interop.RunProgram(t, language, "secure", strings.TrimPrefix(c.Members[0].ClientURL, "https://"), a.dir)
		})
	}
}
