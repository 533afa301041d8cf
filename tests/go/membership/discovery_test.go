package membership

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

const registry = "/_etcd/registry/"

// discovering prepares a member that registers at a service instead of naming the others.
func discovering(t *testing.T, c *cluster.Cluster, service, token string, flags ...string) *cluster.Member {
	t.Helper()
	m, err := c.Layout(*bin, quick...)
	if err != nil {
		t.Fatal(err)
	}
	m.JoinExisting(map[string]string{m.Name: m.PeerURL})
	m.RemoveFlag("--initial-cluster=" + m.Name + "=" + m.PeerURL)
	m.RemoveFlag("--initial-cluster-state=existing")
	m.AddFlag("--discovery-endpoints=" + service)
	m.AddFlag("--discovery-token=" + token)
	for _, flag := range flags {
		m.AddFlag(flag)
	}
	return m
}

func TestMembersFindEachOtherAtADiscoveryService(t *testing.T) {
	t.Parallel()
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		if _, err := os.Stat(binary); err != nil {
			t.Fatalf("no server at %s: cargo xtask builds etcd", binary)
		}
		service := begin(t, 1, binary)
		if _, err := service.client.Put(t.Context(), registry+"t/_config/size", "2"); err != nil {
			t.Fatal(err)
		}
		endpoint := strings.TrimPrefix(service.cluster.Members[0].ClientURL, "http://")
		found := begin(t, 1, *bin)
		var members []*cluster.Member
		for range 2 {
			// The first endpoint does not answer.
			m := discovering(t, found.cluster, "127.0.0.1:1,"+endpoint, "t")
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			members = append(members, m)
		}
		for _, m := range members {
			if err := m.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		client := found.connect(members...)
		list, err := client.MemberList(t.Context())
		if err != nil || len(list.Members) != 2 {
			t.Fatalf("with %s: %v, %v", binary, list, err)
		}
		// Their keys are those that etcd's members would have written.
		for _, member := range list.Members {
			key := fmt.Sprintf("%st/members/%x", registry, member.ID)
			kv, err := service.client.Get(t.Context(), key)
			if err != nil || len(kv.Kvs) != 1 || string(kv.Kvs[0].Value) != member.Name+"="+member.PeerURLs[0] {
				t.Errorf("with %s: %s holds %v, %v", binary, key, kv, err)
			}
		}
		// One that comes late, or without a size, says so. Data makes the service superfluous.
		for token, text := range map[string]string{
			"t": "discovery: cluster is full", "other": "discovery: size key not found",
		} {
			found.cluster.AllowErrors(text)
			late := discovering(t, found.cluster, endpoint, token)
			if err := late.Start(); err != nil {
				t.Fatal(err)
			}
			if !late.Ended(t.Context()) {
				t.Fatal("it runs")
			}
			if log, _ := late.RunLog(); !strings.Contains(log, text) {
				t.Errorf("with %s: it does not say %q:\n%s", binary, text, log)
			}
			late.Kill()
		}
		service.cluster.Members[0].Kill()
		members[0].Kill()
		if err := members[0].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADiscoveryServiceMayWantAUser(t *testing.T) {
	t.Parallel()
	service := begin(t, 1, cluster.EtcdPath())
	client := service.client
	steps := []func() error{
		func() error { _, err := client.Put(t.Context(), registry+"one/_config/size", "1"); return err },
		func() error { _, err := client.Put(t.Context(), registry+"two/_config/size", "1"); return err },
		func() error { _, err := client.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := client.AuthEnable(t.Context()); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	endpoint := service.cluster.Members[0].ClientURL
	wrong := discovering(t, service.cluster, endpoint, "one", "--discovery-user=root", "--discovery-password=wrong")
	if err := wrong.Start(); err != nil {
		t.Fatal(err)
	}
	// As etcd's members, it tries again ever more rarely, and until then registers nowhere.
	service.waitForLog(wrong, "etcdserver: authentication failed, invalid user ID or password")
	wrong.Kill()
	for token, flags := range map[string][]string{
		"one": {"--discovery-user=root:secret"}, "two": {"--discovery-user=root", "--discovery-password=secret"},
	} {
		m := discovering(t, service.cluster, endpoint, token, flags...)
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if list, err := service.connect(m).MemberList(t.Context()); err != nil || len(list.Members) != 1 {
			t.Fatalf("%v: %v, %v", flags, list, err)
		}
	}
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Endpoints that do not answer are given up after the time of the flags: eight, in at least three calls. With the
// defaults they would take over 40 s.
func TestADiscoveryServiceThatIsSilentIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	service := begin(t, 1, *bin)
	endpoint := strings.TrimPrefix(service.cluster.Members[0].ClientURL, "http://")
	for token, flags := range map[string][]string{
		"request": {"--discovery-request-timeout=100ms", "--discovery-dial-timeout=17m"},
		"dial":    {"--discovery-dial-timeout=100ms", "--discovery-request-timeout=17m", "--discovery-insecure-skip-tls-verify", "--discovery-insecure-transport=false"},
	} {
		if _, err := service.client.Put(t.Context(), registry+token+"/_config/size", "1"); err != nil {
			t.Fatal(err)
		}
		// Endpoints are asked in the order of their texts: these come before the one with a scheme.
		var endpoints []string
		for range 8 {
			endpoints = append(endpoints, silent(t))
		}
		found := begin(t, 1, *bin)
		m := discovering(t, found.cluster, strings.Join(append(endpoints, "http://"+endpoint), ","), token, flags...)
		began := time.Now()
		if err := m.Restart(t.Context()); err != nil {
			t.Fatalf("%s: %v", token, err)
		}
		if took := time.Since(began); took < 2400*time.Millisecond || took > 40*time.Second {
			t.Errorf("%s: it took %v", token, took)
		}
		m.Kill()
	}
}

// A member that has data does not ask DNS: its domain need not be there any more.
func TestAStartedMemberNeedsNoDNS(t *testing.T) {
	t.Parallel()
	f := begin(t, 1, *bin)
	if _, err := f.client.Put(t.Context(), "kept", "1"); err != nil {
		t.Fatal(err)
	}
	m := f.cluster.Members[0]
	m.Kill()
	m.RemoveFlag("--initial-cluster=" + m.Name + "=" + m.PeerURL)
	m.AddFlag("--discovery-srv=gone.invalid")
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := f.client.Get(t.Context(), "kept"); err != nil || found.Count != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if log, _ := m.RunLog(); strings.Contains(log, "SRV") {
		t.Errorf("it asked for records:\n%s", log)
	}
}
