package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is for how long the certificates of a measurement are good: longer than any.
const validity = 30 * 24 * time.Hour

// writeCertificates writes what a cluster on loopback and its clients need for TLS to a folder: `ca.pem`, and `server`
// and `client`, each as `.pem` and `.key`. Keys are of ECDSA on P-256.
func writeCertificates(folder string) error {
	if folder == "" {
		return errors.New("certificates: say where with --folder")
	}
	root, rootKey, err := signed(folder, "ca", nil, nil)
	if err != nil {
		return err
	}
	for _, name := range []string{"server", "client"} {
		if _, _, err := signed(folder, name, root, rootKey); err != nil {
			return err
		}
	}
	return nil
}

// signed writes a certificate for this machine and its key; without an authority it is one.
func signed(folder, name string, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		by, byKey = template, own
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, by, &own.PublicKey, byKey)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: certificate}, name + ".key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, nil, err
		}
	}
	parsed, err := x509.ParseCertificate(certificate)
	return parsed, own, err
}
