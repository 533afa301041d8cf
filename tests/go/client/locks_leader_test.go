package client_test

import (
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"

	"stele.test/cluster"
)

// besides starts three members and returns the leader, and a client of one of the others.
func besides(t *testing.T) (*cluster.Member, *clientv3.Client) {
	t.Helper()
	c := start(t, 3)
	leading := leader(t, c, connect(t, c.Endpoints()...))
	at := slices.Index(c.Members, leading)
	return leading, connect(t, c.Members[(at+1)%3].ClientURL)
}

// afterwards repeats what may be repeated until a leader carries it out.
func afterwards(t *testing.T, what func() error) {
	t.Helper()
	ctx := patiently(t)
	for {
		err := what()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestALockOutlivesItsLeader waits for a lock while the leader is killed: it is taken when it is free.
func TestALockOutlivesItsLeader(t *testing.T) {
	leading, follower := besides(t)
	ctx := patiently(t)
	locks := lpb.NewLockClient(follower.ActiveConnection())
	held := must[*lpb.LockResponse](t)(locks.Lock(ctx, &lpb.LockRequest{Name: []byte("l")}))
	lease := granting(t)(follower.Grant(ctx, 600))
	taken := make(chan error, 1)
	go func() {
		_, err := locks.Lock(ctx, &lpb.LockRequest{Name: []byte("l"), Lease: int64(lease.ID)})
		taken <- err
	}()
	for count := int64(0); count < 2; {
		count = getting(t)(follower.Get(ctx, "l/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count
	}
	leading.Kill()
	afterwards(t, func() error { _, err := follower.Delete(ctx, string(held.Key)); return err })
	if err := <-taken; err != nil {
		t.Fatalf("the lock that waited: %v", err)
	}
}

// TestAnElectionOutlivesItsLeader campaigns and observes while the cluster's leader is killed.
func TestAnElectionOutlivesItsLeader(t *testing.T) {
	leading, follower := besides(t)
	ctx := patiently(t)
	election := epb.NewElectionClient(follower.ActiveConnection())
	name := []byte("e")
	campaign := func(value string) (*epb.CampaignResponse, error) {
		lease, err := follower.Grant(ctx, 600)
		if err != nil {
			return nil, err
		}
		return election.Campaign(ctx, &epb.CampaignRequest{Name: name, Value: []byte(value), Lease: int64(lease.ID)})
	}
	first := must[*epb.CampaignResponse](t)(campaign("first"))
	observed := must[grpc.ServerStreamingClient[epb.LeaderResponse]](t)(election.Observe(ctx, &epb.LeaderRequest{Name: name}))
	expectElected(t, observed, "first")
	won := make(chan error, 1)
	go func() {
		_, err := campaign("second")
		won <- err
	}()
	for count := int64(0); count < 2; {
		count = getting(t)(follower.Get(ctx, "e/", clientv3.WithPrefix(), clientv3.WithCountOnly())).Count
	}
	leading.Kill()
	afterwards(t, func() error { _, err := election.Resign(ctx, &epb.ResignRequest{Leader: first.Leader}); return err })
	if err := <-won; err != nil {
		t.Fatalf("the campaign that waited: %v", err)
	}
	expectElected(t, observed, "second")
}

// TestObserveGoesOnAfterACompaction proclaims before and after everything older is compacted.
func TestObserveGoesOnAfterACompaction(t *testing.T) {
	c := start(t, 1)
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)
	election := epb.NewElectionClient(client.ActiveConnection())
	name := []byte("e")
	lease := granting(t)(client.Grant(ctx, 600))
	request := &epb.CampaignRequest{Name: name, Value: []byte("0"), Lease: int64(lease.ID)}
	won := must[*epb.CampaignResponse](t)(election.Campaign(ctx, request))
	observed := must[grpc.ServerStreamingClient[epb.LeaderResponse]](t)(election.Observe(ctx, &epb.LeaderRequest{Name: name}))
	expectElected(t, observed, "0")
	for _, value := range []string{"1", "2"} {
		put := must[*clientv3.PutResponse](t)(client.Put(ctx, "other", value))
		must[*clientv3.CompactResponse](t)(client.Compact(ctx, put.Header.Revision, clientv3.WithCompactPhysical()))
		proclaim := &epb.ProclaimRequest{Leader: won.Leader, Value: []byte(value)}
		must[*epb.ProclaimResponse](t)(election.Proclaim(ctx, proclaim))
		expectElected(t, observed, value)
	}
}

// expectElected receives the next leader.
func expectElected(t *testing.T, observed grpc.ServerStreamingClient[epb.LeaderResponse], value string) {
	t.Helper()
	seen, err := observed.Recv()
	if err != nil || string(seen.Kv.Value) != value {
		t.Fatalf("observed %v, %v instead of %q", seen, err, value)
	}
}
