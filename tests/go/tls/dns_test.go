package tls

import (
	"cmp"
	"strings"
	"testing"

	"stele.test/cluster"
	"stele.test/nameserver"
)

// inDomain are names of hosts in the domain of the records.
func inDomain(names ...string) []string {
	for i, name := range names {
		names[i] = name + "." + nameserver.Domain
	}
	return names
}

// TestMembersWithTLSFindEachOtherByDNS starts members that the records of `_etcd-server-ssl._tcp` name. Their
// certificate is good for the hosts of the records alone.
func TestMembersWithTLSFindEachOtherByDNS(t *testing.T) {
	nameserver.Need(t)
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		s, a := nameserver.Start(t), newAuthority(t, "ours")
		a.issue(subject{name: "server", hosts: hosts, serial: 2})
		a.issue(subject{name: "member", hosts: inDomain("m1", "m2", "m3"), serial: 3})
		root := a.client(a.issue(subject{name: "root", serial: 4}))
		flags := append(append(a.clientFlags("server"), a.peerFlags("member")...), quick...)
		c := cluster.ForTest(t, cluster.Config{
			Binary: binary, Size: 3, Args: append(flags, "--discovery-srv="+nameserver.Domain), TLS: root, SecurePeers: true,
			Hosts: []cluster.Host{s.Asking(t), s.Asking(t), s.Asking(t)},
			Prepare: func(m *cluster.Member, initialCluster, _ string) error {
				m.RemoveFlag("--initial-cluster=" + initialCluster)
				s.Add(t, "_etcd-server-ssl._tcp", m.Name, m.PeerURL)
				return nil
			},
		})
		client := connect(t, root, c.Endpoints()...)
		if err := put(t.Context(), client, "found"); err != nil {
			t.Fatal(err)
		}
		list := must(client.MemberList(t.Context()))
		for _, m := range list.Members {
			prefix := "https://" + m.Name + "." + nameserver.Domain + ":"
			if len(m.PeerURLs) != 1 || !strings.HasPrefix(m.PeerURLs[0], prefix) {
				t.Errorf("%s is listed at %v", m.Name, m.PeerURLs)
			}
		}
		if len(list.Members) != 3 {
			t.Errorf("%d members are listed", len(list.Members))
		}
	}
}

// TestClientsFindMembersWithTLSByDNS asks for the records of `_etcd-client-ssl._tcp`: with --insecure-discovery, the
// default, a certificate must be good for the host that they name; without it, ours demands one for the domain, where
// etcdctl leaves out records without TLS and no more.
func TestClientsFindMembersWithTLSByDNS(t *testing.T) {
	nameserver.Need(t)
	a := newAuthority(t, "ours")
	root := a.client(a.issue(subject{name: "root", serial: 2}))
	shown := []string{"--cacert=" + a.file("ca.pem"), "--cert=" + a.file("root.pem"), "--key=" + a.file("root.key")}
	start := func(name string, serial int64, names ...string) (*nameserver.Server, *cluster.Member) {
		a.issue(subject{name: name, hosts: append(names, hosts...), serial: serial})
		c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: a.clientFlags(name), TLS: root})
		s := nameserver.Start(t)
		s.Add(t, "_etcd-client-ssl._tcp", "m1", c.Members[0].ClientURL)
		s.Add(t, "_etcd-client-ssl-blue._tcp", "m1", c.Members[0].ClientURL)
		s.Add(t, "_etcd-client-ssl-mixed._tcp", "m1", c.Members[0].ClientURL)
		s.Add(t, "_etcd-client-mixed._tcp", "m2", c.Members[0].ClientURL)
		return s, c.Members[0]
	}
	ofHost, host := start("host", 3, inDomain("m1")...)
	ofDomain, domain := start("domain", 4, nameserver.Domain)
	for _, m := range []*cluster.Member{host, domain} {
		if err := put(t.Context(), connect(t, root, m.ClientURL), "key"); err != nil {
			t.Fatal(err)
		}
	}
	const good, late, unknown = "key\nvalue", "context deadline exceeded", "dns lookup errors: "
	const without = "ignoring discovered insecure endpoint \"http://m2." + nameserver.Domain
	const checked, blue, green, mixed = "--insecure-discovery=false", "--discovery-srv-name=blue",
		"--discovery-srv-name=green", "--discovery-srv-name=mixed"
	for name, ctl := range commandLines(t) {
		for _, line := range []struct {
			server *nameserver.Server
			words  []string
			want   string
			// etcds is what etcdctl prints, if that is something else.
			etcds string
		}{
			{ofHost, nil, good, ""},
			{ofHost, []string{blue}, good, ""},
			{ofHost, []string{green}, unknown, ""},
			{ofHost, []string{checked}, late, good},
			{ofHost, []string{checked, mixed}, late, without},
			{ofDomain, []string{blue}, late, ""},
			{ofDomain, []string{checked}, good, late},
			{ofDomain, []string{checked, blue}, good, late},
			{ofDomain, []string{checked, mixed}, without, late},
		} {
			want := line.want
			if name == "etcdctl" {
				want = cmp.Or(line.etcds, want)
			}
			if want == late {
				line.words = append(line.words, "--command-timeout=500ms")
			}
			words := append(append([]string{"--discovery-srv=" + nameserver.Domain}, shown...), line.words...)
			words = append(append(line.server.Asking(t).Prefix, ctl.path), append(words, "get", "key")...)
			out, err := commandLine{t, words[0]}.run(t.Context(), nil, words[1:]...)
			fails := want == late || want == unknown
			if !strings.Contains(out, want) || (err != nil) != fails {
				t.Errorf("%s %v: %v: %s", name, line.words, err, out)
			}
		}
	}
}
