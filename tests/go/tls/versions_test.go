package tls

import (
	"crypto/tls"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"stele.test/cluster"
)

// A member speaks the versions of its flags, to a client that is no Go program either; who shows no certificate is logged with
// the name that it asked for.
func TestAMemberSpeaksTheVersionsOfItsFlags(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	alice := a.issue(subject{name: "alice", serial: 3})
	asked := func(m *cluster.Member, more ...string) (string, error) {
		address := strings.TrimPrefix(m.ClientURL, "https://")
		words := append([]string{"s_client", "-connect", address, "-CAfile", a.file("ca.pem"), "-verify_return_error"}, more...)
		out, err := exec.CommandContext(t.Context(), "openssl", words...).CombinedOutput()
		return string(out), err
	}
	versions := map[string]string{"-tls1_2": "New, TLSv1.2, Cipher is", "-tls1_3": "New, TLSv1.3, Cipher is"}
	for flag, spoken := range map[string]string{"--tls-min-version=TLS1.3": "-tls1_3", "--tls-max-version=TLS1.2": "-tls1_2"} {
		c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: append(a.clientFlags("server"), flag), TLS: a.client(alice)})
		m := c.Members[0]
		for version, text := range versions {
			out, err := asked(m, version, "-cert", a.file("alice.pem"), "-key", a.file("alice.key"))
			switch {
			case version == spoken && (err != nil || !strings.Contains(out, text)):
				t.Errorf("%s, %s: %v\n%s", flag, version, err, out)
			case version != spoken && (err == nil || !strings.Contains(out, "alert protocol version")):
				t.Errorf("%s, %s was not refused: %v\n%s", flag, version, err, out)
			}
		}
		// Over TLS 1.3 a client without a certificate learns of it after its handshake.
		_, _ = asked(m, spoken, "-servername", "other.example")
		awaitRejection(t, m, "client", `"server-name":"other.example"`)
	}
}

// rejections are the log lines of rejected connections of a side, by field.
func rejections(m *cluster.Member, side string) (lines []map[string]any) {
	for line := range strings.Lines(must(m.RunLog())) {
		fields := map[string]any{}
		if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == "rejected connection on "+side+" endpoint" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// What a member logs of a client or a peer that it rejects is a line with etcd's level, message and fields.
func TestRejectedConnectionsAreLoggedAsByEtcd(t *testing.T) {
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	good := a.issue(subject{name: "alice", serial: 3})
	revoked := a.issue(subject{name: "bob", hosts: []string{"localhost"}, serial: 66})
	a.revoke(66)
	flags := append(append(a.clientFlags("server"), a.peerFlags("server")...),
		"--client-crl-file="+a.file("crl.der"), "--peer-crl-file="+a.file("crl.der"))
	var members []*cluster.Member
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		c := cluster.ForTest(t, cluster.Config{Binary: binary, Args: flags, TLS: a.client(good), SecurePeers: true})
		members = append(members, c.Members[0])
	}
	for side, url := range map[string]func(*cluster.Member) string{
		"client": func(m *cluster.Member) string { return m.ClientURL },
		"peer":   func(m *cluster.Member) string { return m.PeerURL },
	} {
		for number, shown := range []*tls.Config{a.client(), a.client(revoked)} {
			var lines []map[string]any
			for _, m := range members {
				if err := refusal(url(m), shown); err == nil {
					t.Errorf("%s: a client with %d certificates was served", side, number)
				}
				await(t, side+": it is logged", func() bool { return len(rejections(m, side)) > number })
				lines = append(lines, rejections(m, side)[number])
			}
			etcd, stele := lines[0], lines[1]
			if stele["level"] != etcd["level"] || len(etcd) < 6 {
				t.Errorf("%s: level %v instead of %v: %v", side, stele["level"], etcd["level"], etcd)
			}
			// How often it happened is Stele's own.
			delete(stele, "count")
			expected, found := slices.Sorted(maps.Keys(etcd)), slices.Sorted(maps.Keys(stele))
			if !slices.Equal(found, expected) {
				t.Errorf("%s: fields %v instead of %v", side, found, expected)
			}
		}
	}
}
