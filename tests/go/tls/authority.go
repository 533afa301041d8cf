// Package tls runs members with TLS, and meets them as every kind of client and peer: right, wrong, expired, revoked.
package tls

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
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

// authority is a certificate authority with a directory for what it issues.
type authority struct {
	t           testing.TB
	dir         string
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

// subject is what a certificate is to say.
type subject struct {
	name string
	// file is the name of its files, if it is not its own.
	file   string
	hosts  []string
	serial int64
	// begin and end are relative to now; zero means an hour ago and an hour from now.
	begin, end time.Duration
	// selfSigned leaves the authority out.
	selfSigned bool
	// usages are what it is good for; none means servers and clients.
	usages []x509.ExtKeyUsage
	// rsa makes its key one of RSA, in PKCS #1, as kubeadm does.
	rsa bool
}

// must ends the test program: what it is used for fails on no machine.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	return newAuthorityWithKey(t, name, ecdsaKey())
}

func newAuthorityWithKey(t testing.TB, name string, key crypto.Signer) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))
	a.certificate = must(x509.ParseCertificate(der))
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.write("ca.pem", a.pem)
	return a
}

func ecdsaKey() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// file is the path of a file of this authority.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// write replaces a file in one step, as tools that rotate certificates do.
func (a *authority) write(name string, content []byte) {
	a.t.Helper()
	replace(a.t, a.file(name), content)
}

func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

// issue writes the certificate and its key to files, and returns the pair.
func (a *authority) issue(s subject) tls.Certificate {
	a.t.Helper()
	certificate, key := a.sign(s)
	file := cmp.Or(s.file, s.name)
	a.write(file+".pem", certificate)
	a.write(file+".key", key)
	return must(tls.X509KeyPair(certificate, key))
}

// load reads NAME.pem and NAME.key.
func (a *authority) load(name string) tls.Certificate {
	return must(tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key")))
}

// sign makes a certificate and its key, as PEM.
func (a *authority) sign(s subject) (certificate, key []byte) {
	a.t.Helper()
	begin, end := -time.Hour, time.Hour
	if s.begin != 0 || s.end != 0 {
		begin, end = s.begin, s.end
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(s.serial), Subject: pkix.Name{CommonName: s.name},
		NotBefore: time.Now().Add(begin), NotAfter: time.Now().Add(end),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: s.usages,
	}
	if s.usages == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	own, private := s.newKey()
	parent, signer := a.certificate, a.key
	if s.selfSigned {
		parent, signer = template, own
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(private)
}

// newKey makes the key of a certificate, and the block that holds it in a file.
func (s subject) newKey() (crypto.Signer, *pem.Block) {
	if s.rsa {
		key := must(rsa.GenerateKey(rand.Reader, 2048))
		return key, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	}
	key := ecdsaKey()
	return key, &pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(key))}
}

// revoke writes crl.der, which revokes these serial numbers.
func (a *authority) revoke(serials ...int64) {
	a.t.Helper()
	list := &x509.RevocationList{
		Number: big.NewInt(time.Now().UnixNano()), ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour),
	}
	for _, serial := range serials {
		entry := x509.RevocationListEntry{SerialNumber: big.NewInt(serial), RevocationTime: time.Now()}
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, entry)
	}
	a.write("crl.der", must(x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)))
}

// client is the configuration of a client that trusts this authority and shows these certificates.
func (a *authority) client(certificates ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12}
}

// clientFlags make a member show NAME.pem to clients and demand certificates of this authority.
func (a *authority) clientFlags(name string) []string {
	return []string{
		"--cert-file=" + a.file(name+".pem"), "--key-file=" + a.file(name+".key"),
		"--client-cert-auth", "--trusted-ca-file=" + a.file("ca.pem"),
	}
}

// peerFlags do the same among members.
func (a *authority) peerFlags(name string) []string {
	return []string{
		"--peer-cert-file=" + a.file(name+".pem"), "--peer-key-file=" + a.file(name+".key"),
		"--peer-client-cert-auth", "--peer-trusted-ca-file=" + a.file("ca.pem"),
	}
}
