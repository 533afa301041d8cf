package membership

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"

	"stele.test/cluster"
	"stele.test/nameserver"
)

// found starts members that find each other by the records of a service, and waits until they serve.
func found(t *testing.T, s *nameserver.Server, size int, service string, flags ...string) *fleet {
	t.Helper()
	hosts := make([]cluster.Host, size)
	for n := range hosts {
		hosts[n] = s.Asking(t)
	}
	config := cluster.Config{Binary: *bin, Size: size, Hosts: hosts, Args: append(flags, quick...)}
	config.Args = append(config.Args, "--discovery-srv="+nameserver.Domain)
	config.Prepare = func(m *cluster.Member, initialCluster, token string) error {
		m.RemoveFlag("--initial-cluster=" + initialCluster)
		s.Add(t, service, m.Name, m.PeerURL)
		return nil
	}
	f := &fleet{t: t, cluster: cluster.ForTest(t, config)}
	f.client = f.connect(f.cluster.Members...)
	return f
}

func TestMembersFindEachOtherByDNS(t *testing.T) {
	t.Parallel()
	nameserver.Need(t)
	s := nameserver.Start(t)
	f := found(t, s, 3, "_etcd-server._tcp")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := f.client.Put(ctx, "found", "1"); err != nil {
		t.Fatal(err)
	}
	list, err := f.client.MemberList(ctx)
	if err != nil || len(list.Members) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	// The hosts of the records are those that the cluster is made of.
	for _, listed := range list.Members {
		for _, m := range f.cluster.Members {
			at, err := url.Parse(m.PeerURL)
			if err != nil {
				t.Fatal(err)
			}
			expected := fmt.Sprintf("http://%s.%s:%s", m.Name, nameserver.Domain, at.Port())
			if listed.Name == m.Name && (len(listed.PeerURLs) != 1 || listed.PeerURLs[0] != expected) {
				t.Errorf("%s is listed at %v, not at %s", m.Name, listed.PeerURLs, expected)
			}
		}
	}
	// They dial each other by these hosts, also when they start again and ask for no records.
	m := f.cluster.Members[0]
	m.Kill()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.connect(m).Get(ctx, "found"); err != nil {
		t.Fatal(err)
	}

	// Another service of the same domain, which has records of its own.
	blue := found(t, s, 1, "_etcd-server-blue._tcp", "--discovery-srv-name=blue")
	if list, err := blue.client.MemberList(ctx); err != nil || len(list.Members) != 1 {
		t.Fatalf("%v, %v", list, err)
	}

	// A member that no record names says so and leaves no directory behind.
	stray := blue.cluster.Members[0]
	stray.Kill()
	if err := os.RemoveAll(stray.DataDir); err != nil {
		t.Fatal(err)
	}
	stray.RemoveFlag("--discovery-srv-name=blue")
	blue.mustSayAndEnd(stray, "in SRV records")
	if _, err := os.Stat(stray.DataDir); !os.IsNotExist(err) {
		t.Errorf("it left a directory: %v", err)
	}
	stray.Kill()
}
