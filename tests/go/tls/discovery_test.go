package tls

import (
	"strings"
	"testing"

	"stele.test/cluster"
)

// discovering starts a member that registers at a service.
func discovering(t *testing.T, host *cluster.Cluster, token string, flags ...string) *cluster.Member {
	t.Helper()
	m, err := host.Layout(*bin, quick...)
	if err != nil {
		t.Fatal(err)
	}
	m.JoinExisting(map[string]string{m.Name: m.PeerURL})
	m.RemoveFlag("--initial-cluster=" + m.Name + "=" + m.PeerURL)
	m.RemoveFlag("--initial-cluster-state=existing")
	for _, flag := range append(flags, "--discovery-token="+token) {
		m.AddFlag(flag)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestADiscoveryServiceMayDemandCertificates(t *testing.T) {
	t.Parallel()
	a, foreign := newAuthority(t, "ours"), newAuthority(t, "theirs")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	root := a.issue(subject{name: "root", serial: 3})
	shown := []string{"--discovery-cert=" + a.file("root.pem"), "--discovery-key=" + a.file("root.key")}
	trusted := "--discovery-cacert=" + a.file("ca.pem")
	host := cluster.ForTest(t, cluster.Config{Binary: *bin})
	host.AllowErrors("failed to join discovery cluster")
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		service := cluster.ForTest(t, cluster.Config{Binary: binary, Args: a.clientFlags("server"), TLS: a.client(root)})
		client := connect(t, a.client(root), service.Members[0].ClientURL)
		secure := service.Members[0].ClientURL
		bare := strings.TrimPrefix(secure, "https://")
		for token, flags := range map[string][]string{
			"https":     append([]string{"--discovery-endpoints=" + secure, trusted}, shown...),
			"no scheme": append([]string{"--discovery-endpoints=" + bare, trusted}, shown...),
			"no checks": append([]string{"--discovery-endpoints=" + secure, "--discovery-insecure-skip-tls-verify=true"}, shown...),
			"not shown": {"--discovery-endpoints=" + secure, trusted},
			"other roots": append([]string{
				"--discovery-endpoints=" + secure, "--discovery-cacert=" + foreign.file("ca.pem"),
			}, shown...),
			"in the clear": append([]string{"--discovery-endpoints=http://" + bare, trusted}, shown...),
		} {
			if _, err := client.Put(t.Context(), "/_etcd/registry/"+token+"/_config/size", "1"); err != nil {
				t.Fatal(err)
			}
			m := discovering(t, host, token, flags...)
			switch token {
			case "https", "no scheme", "no checks":
				if err := m.WaitReady(t.Context()); err != nil {
					t.Errorf("%s, at %s: %v", token, binary, err)
				}
			default:
				awaitLogged(t, m, "retry connecting to discovery service")
			}
			m.Kill()
		}
	}
	half := discovering(t, host, "half", "--discovery-endpoints=https://127.0.0.1:1", shown[0])
	awaitLogged(t, half, "--discovery-cert, --discovery-key: one is given without the other")
}
