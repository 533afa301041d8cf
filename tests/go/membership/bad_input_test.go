package membership

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"stele.test/cluster"
)

// stray lays out a member beside those of the cluster.
func (f *fleet) stray() *cluster.Member {
	f.t.Helper()
	m, err := f.cluster.Layout(*bin, quick...)
	if err != nil {
		f.t.Fatal(err)
	}
	return m
}

// peerURLs are the peer URLs of the members that run, and of others, by name.
func (f *fleet) peerURLs(others ...*cluster.Member) map[string]string {
	urls := map[string]string{}
	for _, m := range append(f.running(), others...) {
		urls[m.Name] = m.PeerURL
	}
	return urls
}

func TestJoinersThatDoNotFitSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := begin(t, 1, *bin)
	first := f.cluster.Members[0]

	// Its name is that of another member.
	namesake := f.stray()
	if _, err := f.client.MemberAddAsLearner(t.Context(), []string{namesake.PeerURL}); err != nil {
		t.Fatal(err)
	}
	name := namesake.Name
	namesake.Name = first.Name
	namesake.JoinExisting(map[string]string{first.Name: first.PeerURL + "," + first.Name + "=" + namesake.PeerURL})
	f.mustSayAndEnd(namesake, "names no other member; each needs a name of its own")
	namesake.Name = name
	namesake.Kill()

	// It is to begin a cluster of its own, in which the first one is a member.
	other := f.stray()
	other.JoinExisting(f.peerURLs(other))
	other.RemoveFlag("--initial-cluster-state=existing")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(other, "was met, expected")
	f.waitForLog(other, "needs an empty data directory")
	other.Kill()

	// It holds the data of another cluster, which goes on with its own members alone.
	foreign := begin(t, 1, *bin)
	holder := foreign.cluster.Members[0]
	if _, err := foreign.client.Put(t.Context(), "whose", "foreign"); err != nil {
		t.Fatal(err)
	}
	holder.Kill()
	namesake.DataDir = holder.DataDir
	namesake.JoinExisting(f.peerURLs(namesake))
	if err := namesake.Start(); err != nil {
		t.Fatal(err)
	}
	f.waitForLog(first, "was met, expected")
	namesake.Kill()
	found, err := f.client.Get(t.Context(), "whose")
	if err != nil || len(found.Kvs) != 0 {
		t.Errorf("the data of another cluster has come: %v, %v", found, err)
	}
}

func TestTwoMembersJoinAtOnce(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	joiners := []*cluster.Member{f.stray(), f.stray()}
	peers := f.peerURLs(joiners...)
	for _, m := range joiners {
		f.retry("add "+m.Name, func(ctx context.Context) error {
			_, err := f.client.MemberAdd(ctx, []string{m.PeerURL})
			return err
		})
	}
	// Of six voters three would run.
	_, err := f.client.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"})
	if !errors.Is(err, rpctypes.ErrMemberNotEnoughStarted) {
		t.Errorf("a third one: %v", err)
	}
	for _, m := range joiners {
		m.JoinExisting(peers)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range joiners {
		if err := m.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.client.Put(t.Context(), "by five", "1"); err != nil {
		t.Fatal(err)
	}
	for _, m := range joiners {
		found, err := f.connect(m).Get(t.Context(), "by five")
		if err != nil || len(found.Kvs) != 1 {
			t.Errorf("%s: %v, %v", m.Name, found, err)
		}
	}
}

func TestNoMemberIsAddedWhileTheQuorumIsUnhealthy(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	down := f.cluster.Members[0]
	down.Kill()
	for _, m := range f.running() {
		f.waitForLog(m, "peer became inactive")
	}
	others := f.connect(f.running()...)
	if _, err := others.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrUnhealthy) {
		t.Errorf("a fourth voter: %v", err)
	}
	alive := f.idOf(f.cluster.Members[1])
	if _, err := others.MemberRemove(t.Context(), alive); !errors.Is(err, rpctypes.ErrUnhealthy) {
		t.Errorf("one of the two that run is removed: %v", err)
	}
	if _, err := others.MemberRemove(t.Context(), f.idOf(down)); err != nil {
		t.Errorf("the one that is down is not removed: %v", err)
	}
}
