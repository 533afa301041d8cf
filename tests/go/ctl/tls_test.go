package ctl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"stele.test/cluster"
)

// authority signs certificates; its files lie in one folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes NAME.crt and NAME.key for 127.0.0.1; an authority that has no certificate yet signs its own.
func (a *authority) issue(t *testing.T, name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name))), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: by == nil,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// tlsEtcd starts an etcd that asks its clients for certificates, and returns its address.
func tlsEtcd(t *testing.T, a *authority) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	url := "https://" + address
	cmd := exec.Command(cluster.EtcdPath(), "--data-dir", t.TempDir(), "--log-level", "error",
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://127.0.0.1:0", "--cert-file", a.file("server.crt"), "--key-file", a.file("server.key"),
		"--client-cert-auth", "--trusted-ca-file", a.file("ca.crt"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return address
}

func TestItSpeaksTLSAsEtcdctlDoes(t *testing.T) {
	t.Parallel()
	reference := &program{path: etcdctl(t)}
	tested := &program{path: named(t, "etcdctl")}
	a, other := newAuthority(t), newAuthority(t)
	a.issue(t, "server", a)
	a.issue(t, "client", a)
	address := tlsEtcd(t, a)
	reference.endpoint, tested.endpoint = address, address
	ca, cert, key := "--cacert="+a.file("ca.crt"), "--cert="+a.file("client.crt"), "--key="+a.file("client.key")
	short := "--command-timeout=300ms"
	// The server is up once the reference has its first answer.
	if r := reference.run(t, line{args: []string{"put", "a", "b", ca, cert, key, "--command-timeout=60s"}}); r.code != 0 {
		t.Fatalf("put: %+v", r)
	}
	compare(t, reference, tested, []line{
		{args: []string{"get", "a", ca, cert, key}},
		{args: []string{"get", "a", ca, cert, key}, env: []string{"ETCDCTL_ENDPOINTS=https://" + address}},
		{args: []string{"get", "a", cert, key, "--insecure-skip-tls-verify"}},
		{args: []string{"endpoint", "health", "--cluster", ca, cert, key}},
		{args: []string{"get", "a", cert, key, "--cacert", other.file("ca.crt"), short}},
		{args: []string{"get", "a", cert, key, short}},
		{args: []string{"get", "a", ca, short}},
		{args: []string{"get", "a", short}},
		{args: []string{"get", "a", cert}},
		{args: []string{"get", "a", "--cacert", a.file("nosuch")}},
		{args: []string{"get", "a", "--cacert", ""}},
	})
}
