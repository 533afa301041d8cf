package tls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// Peers are served in the clear and with TLS on one port, which etcd refuses, and generated certificates are valid for as
// long as the flag says, as etcd's are.
func TestBothSchemesForPeersAndTheValidityOfGeneratedCertificates(t *testing.T) {
	t.Parallel()
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		anyone := &tls.Config{InsecureSkipVerify: true}
		c := cluster.ForTest(t, cluster.Config{
			Binary: binary, TLS: anyone, SecurePeers: true,
			Args: []string{"--auto-tls", "--peer-auto-tls", "--self-signed-cert-validity=3"},
			Prepare: func(m *cluster.Member, _, _ string) error {
				if binary == *bin {
					m.AddFlag("--listen-peer-urls=" + m.PeerURL + "," + strings.Replace(m.PeerURL, "https:", "http:", 1))
				}
				return nil
			},
		})
		member := c.Members[0]
		for _, listener := range []string{member.ClientURL, member.PeerURL} {
			connection := must(tls.Dial("tcp", must(url.Parse(listener)).Host, anyone))
			shown := connection.ConnectionState().PeerCertificates[0]
			connection.Close()
			if years := shown.NotAfter.Sub(shown.NotBefore); years != 3*365*24*time.Hour {
				t.Errorf("%s: a certificate for %v", binary, years)
			}
		}
		if binary != *bin {
			continue
		}
		address := must(url.Parse(member.PeerURL)).Host
		for _, scheme := range []string{"http", "https"} {
			transport := &http.Transport{TLSClientConfig: anyone.Clone()}
			client := http.Client{Transport: transport, Timeout: patience}
			response, err := client.Get(scheme + "://" + address + "/members")
			if err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
			response.Body.Close()
			transport.CloseIdleConnections()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", scheme, response.Status)
			}
		}
	}
}

var (
	serverAlone = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	clientAlone = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
)

// Members whose certificate for listening is good for nothing else meet with another one for dialling.
func TestMembersDialWithThePairForDialling(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "member", hosts: hosts, serial: 3, usages: serverAlone})
	a.issue(subject{name: "dialler", hosts: hosts, serial: 4, usages: clientAlone})
	flags := append(a.peerFlags("member"), quick...)
	flags = append(flags, "--peer-client-cert-file="+a.file("dialler.pem"), "--peer-client-key-file="+a.file("dialler.key"))
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 2, Args: flags, SecurePeers: true})
	client := connect(t, nil, c.Endpoints()...)
	if err := put(t.Context(), client, "key"); err != nil {
		t.Fatal(err)
	}
}

// The pair for calls to its own client URLs is checked when a member starts, although nothing makes such calls: files
// that do not fit would be noticed late otherwise.
func TestTheUnusedPairForDiallingClientURLsIsChecked(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	a.issue(subject{name: "dialler", hosts: hosts, serial: 3, usages: clientAlone})
	root := a.issue(subject{name: "root", serial: 4})
	start := func(certificate, key string) (*cluster.Cluster, error) {
		return cluster.Start(t.Context(), cluster.Config{Binary: *bin, TLS: a.client(root), Args: append(a.clientFlags("server"),
			"--client-cert-file="+a.file(certificate), "--client-key-file="+a.file(key))})
	}
	c, err := start("dialler.pem", "dialler.key")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := put(t.Context(), connect(t, a.client(root), c.Endpoints()...), "key"); err != nil {
		t.Error(err)
	}
	for files, said := range map[[2]string]string{
		{"dialler.pem", "server.key"}: "--client-cert-file, --client-key-file: ",
		{"none.pem", "dialler.key"}:   "none.pem (--client-cert-file): ",
		{"dialler.pem", "none.key"}:   "none.key (--client-key-file): ",
	} {
		wrong, err := start(files[0], files[1])
		if err == nil {
			wrong.Close()
		}
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// The keys of certificates are neither on the disk of a member, nor in a backup, nor in its log.
func TestPrivateKeysAreKeptNowhere(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	for _, name := range []string{"server", "member"} {
		a.issue(subject{name: name, hosts: hosts, serial: 2})
	}
	root := a.issue(subject{name: "root", serial: 4})
	c := cluster.ForTest(t, cluster.Config{
		Binary: *bin, TLS: a.client(root), SecurePeers: true,
		Args: append(append(a.clientFlags("server"), a.peerFlags("member")...), "--log-level=debug"),
	})
	member := c.Members[0]
	client := connect(t, a.client(root), member.ClientURL)
	if err := put(t.Context(), client, "key"); err != nil {
		t.Fatal(err)
	}
	post(t, member.ClientURL+"/v3/kv/put", `{"key":"YQ=="}`, a.client(root), "http/1.1")
	// The files are read again, and one that does not fit is complained about.
	a.write("server.key", must(os.ReadFile(a.file("member.key"))))
	_ = handshake(member.ClientURL, a.client(root))
	backup := must(clientv3.NewMaintenance(client).Snapshot(t.Context()))
	defer backup.Close()
	var content bytes.Buffer
	must(content.ReadFrom(backup))
	if err := member.Terminate(); err != nil {
		t.Fatal(err)
	}
	var secrets [][]byte
	for _, name := range []string{"server", "member"} {
		text := must(os.ReadFile(a.file(name + ".key")))
		block, _ := pem.Decode(text)
		// The number that is the key, behind the head of its DER; and a line of the file.
		secrets = append(secrets, block.Bytes[7:39], bytes.Split(text, []byte("\n"))[1])
	}
	look := func(path string, content []byte) {
		for _, secret := range secrets {
			if bytes.Contains(content, secret) {
				t.Errorf("%s has a private key", path)
			}
		}
	}
	look("the backup", content.Bytes())
	files := 0
	err := filepath.WalkDir(filepath.Dir(member.DataDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		look(path, must(os.ReadFile(path)))
		return nil
	})
	if err != nil || files < 3 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// A Unix socket has the mode that the umask leaves, and a data directory that others could read is used, with a warning:
// both as in etcd.
func TestModesOfSocketsAndOfADirectoryThatIsThere(t *testing.T) {
	t.Parallel()
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		socket := filepath.Join(t.TempDir(), "clients.sock")
		c := cluster.ForTest(t, cluster.Config{
			Binary: binary,
			Hosts:  []cluster.Host{{Address: "127.0.0.1", Prefix: []string{"sh", "-c", `umask 027; exec "$0" "$@"`}}},
			Prepare: func(m *cluster.Member, _, _ string) error {
				m.AddFlag("--listen-client-urls=" + m.ClientURL + ",unix://" + socket)
				// Beyond what a umask leaves.
				if err := os.Mkdir(m.DataDir, 0o700); err != nil {
					return err
				}
				return os.Chmod(m.DataDir, 0o755)
			},
		})
		if mode := must(os.Stat(socket)).Mode(); mode != fs.ModeSocket|0o750 {
			t.Errorf("%s: mode %v", binary, mode)
		}
		awaitLogged(t, c.Members[0], "check file permission")
		awaitLogged(t, c.Members[0], "drwxr-xr-x")
	}
}
