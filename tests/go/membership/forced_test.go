package membership

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

func TestTheLastMemberGoesOnAlone(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	if _, err := f.client.Put(t.Context(), "kept", "1"); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.cluster.Members {
		m.Kill()
	}
	survivor := f.cluster.Members[1]
	survivor.AddFlag("--force-new-cluster")
	if err := survivor.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	survivor.RemoveFlag("--force-new-cluster")
	for range 2 {
		client := f.connect(survivor)
		members, err := client.MemberList(t.Context())
		if err != nil || len(members.Members) != 1 {
			t.Fatalf("it is not alone: %v, %v", members, err)
		}
		kept, err := client.Get(t.Context(), "kept")
		if err != nil || len(kept.Kvs) != 1 {
			t.Fatalf("its data is lost: %v, %v", kept, err)
		}
		survivor.Kill()
		if err := survivor.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.goOnBesideTheOldCluster(survivor)
}

// goOnBesideTheOldCluster starts the other members again beside a forced one that gets a new member: each cluster keeps
// its own members and data.
func (f *fleet) goOnBesideTheOldCluster(survivor *cluster.Member) {
	f.t.Helper()
	var old []*cluster.Member
	for _, m := range f.cluster.Members {
		if m != survivor {
			old = append(old, m)
			if err := m.Start(); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	for _, m := range old {
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		if err := m.WaitReady(ctx); err != nil {
			f.t.Fatalf("the old cluster is still one, of two of three: %v", err)
		}
		cancel()
	}
	before := f.connect(old...)
	if _, err := before.Put(f.t.Context(), "whose", "old"); err != nil {
		f.t.Fatal(err)
	}
	f.client = f.connect(survivor)
	if _, err := f.client.Put(f.t.Context(), "whose", "forced"); err != nil {
		f.t.Fatal(err)
	}
	// It learns the lineage from the survivor: with another one neither streams nor the snapshot would come.
	f.join(false)
	joiner := f.cluster.Members[len(f.cluster.Members)-1]
	f.waitForLog(old[0], "a forced cluster shows another number")
	for client, expected := range map[*clientv3.Client]string{
		before: "old", f.client: "forced", f.connect(joiner): "forced",
	} {
		found, err := client.Get(f.t.Context(), "whose")
		if err != nil || len(found.Kvs) != 1 || string(found.Kvs[0].Value) != expected {
			f.t.Fatalf("expected what the %s cluster wrote: %v, %v", expected, found, err)
		}
	}
}

// serializable reads what one member has, or is given up.
func serializable(f *fleet, m *cluster.Member) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	_, err := f.connect(m).Get(ctx, "stale", clientv3.WithSerializable())
	return err
}
