package membership

import (
	"context"
	"path/filepath"
	"testing"

	"stele.test/cluster"
)

func TestMembersMeetAtUnixSockets(t *testing.T) {
	t.Parallel()
	t.Run("in the clear", func(t *testing.T) { meetAtUnixSockets(t, false, "unix:", quick...) })
	t.Run("with TLS", func(t *testing.T) {
		meetAtUnixSockets(t, true, "unixs:", append([]string{"--peer-auto-tls"}, quick...)...)
	})
}

func meetAtUnixSockets(t *testing.T, secure bool, scheme string, args ...string) {
	f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{
		Binary: *bin, Size: 2, Args: args, UnixPeers: true, SecurePeers: secure,
	})}
	f.client = f.connect(f.cluster.Members...)
	if _, err := f.client.Put(t.Context(), "over", "sockets"); err != nil {
		t.Fatal(err)
	}

	// Another one joins at a path without slashes before it, and serves clients at a socket, too.
	m, err := f.cluster.Layout(*bin, args...)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	m.PeerURL = scheme + filepath.Join(folder, "peer.sock")
	peers := map[string]string{m.Name: m.PeerURL}
	for _, member := range f.cluster.Members {
		peers[member.Name] = member.PeerURL
	}
	f.retry("add "+m.Name, func(ctx context.Context) error {
		_, err := f.client.MemberAdd(ctx, []string{m.PeerURL})
		return err
	})
	m.JoinExisting(peers)
	socket := "unix://" + filepath.Join(folder, "client.sock")
	m.AddFlag("--listen-client-urls=" + m.ClientURL + "," + socket)
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	local := f.connect(&cluster.Member{ClientURL: socket})
	f.cluster.Members[0].Kill()
	if err := cluster.PutUntilAnswered(t.Context(), local, "over", "a socket of its own"); err != nil {
		t.Fatal(err)
	}
	found, err := f.connect(f.cluster.Members[1]).Get(t.Context(), "over")
	if err != nil || len(found.Kvs) != 1 || string(found.Kvs[0].Value) != "a socket of its own" {
		t.Fatalf("found %v, %v", found, err)
	}
}
