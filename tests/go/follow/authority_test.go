package follow

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority issues certificates, as files below a directory.
type authority struct {
	t           *testing.T
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = a.sign("ca", template, nil, nil)
	return a
}

// issue writes NAME.pem and NAME.key, for servers and clients at loopback.
func (a *authority) issue(name string, serial int64) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	a.sign(name, template, a.certificate, a.key)
}

// sign writes a certificate and its key; without a parent it signs itself.
func (a *authority) sign(name string, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(a.t, err)
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	check(a.t, err)
	certificate, err := x509.ParseCertificate(der)
	check(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(a.t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		check(a.t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600))
	}
	return certificate, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client is how a program with a certificate of this authority connects.
func (a *authority) client(name string) *tls.Config {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
	check(a.t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// serverFlags make a server demand certificates of this authority.
func (a *authority) serverFlags(name string) []string {
	return []string{
		"--cert-file=" + a.file(name+".pem"), "--key-file=" + a.file(name+".key"),
		"--trusted-ca-file=" + a.file("ca.pem"), "--client-cert-auth",
	}
}

// flags are those of `follow`, with a prefix for the destination's.
func (a *authority) flags(prefix, name string) []string {
	return []string{
		"--" + prefix + "cacert=" + a.file("ca.pem"),
		"--" + prefix + "cert=" + a.file(name+".pem"), "--" + prefix + "key=" + a.file(name+".key"),
	}
}
