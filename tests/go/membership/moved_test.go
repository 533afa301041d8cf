package membership

import (
	"context"
	"testing"

	"stele.test/cluster"
)

// moveTo gives a member that does not run another peer URL, also in its flags.
func moveTo(m *cluster.Member, peerURL string) {
	for _, flag := range []string{"--listen-peer-urls=", "--initial-advertise-peer-urls="} {
		m.RemoveFlag(flag + m.PeerURL)
		m.AddFlag(flag + peerURL)
	}
	m.PeerURL = peerURL
}

// It knows the old URL alone, and one of the two that know the new one is gone, too: the moved member must find it.
func TestAMemberThatWasAwayIsFoundByOneThatWasMoved(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	away, moved, third := f.cluster.Members[0], f.cluster.Members[1], f.cluster.Members[2]
	away.Kill()
	// Its ports are free; it is never started.
	address, err := f.cluster.Layout(*bin)
	if err != nil {
		t.Fatal(err)
	}
	id := f.idOf(moved)
	f.retry("move "+moved.Name, func(ctx context.Context) error {
		_, err := f.client.MemberUpdate(ctx, id, []string{address.PeerURL})
		return err
	})
	_ = moved.Terminate()
	moveTo(moved, address.PeerURL)
	if err := moved.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	third.Kill()
	if err := away.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.PutUntilAnswered(t.Context(), f.connect(away), "by the two", "1"); err != nil {
		t.Fatal(err)
	}
	for _, listed := range f.listed() {
		if listed.id == id && listed.peerURL != address.PeerURL {
			t.Errorf("it is listed at %s, and is at %s", listed.peerURL, address.PeerURL)
		}
	}
}
