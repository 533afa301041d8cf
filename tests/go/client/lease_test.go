package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const shortTTL = 2

// The leases of one client, which sends all their keep-alives on one stream, and the TTL of each.
const (
	manyLeases = 10_000
	manyTTL    = 5
)

func TestAKeptLeaseLivesAndAnAbandonedOneEnds(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	ctx := patiently(t)
	lease := granting(t)(client.Grant(ctx, shortTTL))
	written := putting(t)(client.Put(ctx, "k", "v", clientv3.WithLease(lease.ID)))
	keeping, abandon := context.WithCancel(ctx)
	alive := must[<-chan *clientv3.LeaseKeepAliveResponse](t)(client.KeepAlive(keeping, lease.ID))
	// The client keeps a lease alive three times within its TTL: after seven answers the first TTL is over.
	for range 7 {
		if kept, ok := <-alive; !ok || kept.TTL <= 0 {
			t.Fatal("the lease was lost while it was kept alive")
		}
	}
	if got := getting(t)(client.Get(ctx, "k")); got.Count != 1 {
		t.Fatal("the key is gone while its lease was kept alive")
	}
	abandon()
	watch := client.Watch(ctx, "k", clientv3.WithRev(written.Header.Revision+1))
	if ended := collect(t, watch, 1)[0]; ended.Type != clientv3.EventTypeDelete {
		t.Fatalf("abandoned lease: %v", ended)
	}
	if _, err := client.KeepAliveOnce(ctx, lease.ID); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Fatalf("keep-alive of an ended lease: %v", err)
	}
}

func TestRevokeDeletesItsKeysAtOnce(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	lease := granting(t)(client.Grant(ctx, 600))
	for _, key := range []string{"a", "b", "c"} {
		putting(t)(client.Put(ctx, key, "", clientv3.WithLease(lease.ID)))
	}
	// A key that moved to no lease stays.
	putting(t)(client.Put(ctx, "c", ""))
	left := must[*clientv3.LeaseTimeToLiveResponse](t)(client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys()))
	if len(left.Keys) != 2 || left.GrantedTTL != 600 || left.TTL > 600 || left.TTL <= 0 {
		t.Fatalf("time to live: %v", left)
	}
	revoking(t)(client.Revoke(ctx, lease.ID))
	got := getting(t)(client.Get(ctx, "", clientv3.WithPrefix()))
	if got.Count != 1 || string(got.Kvs[0].Key) != "c" {
		t.Fatalf("after the revoke: %v", got.Kvs)
	}
}

func TestLeasesSurviveARestart(t *testing.T) {
	t.Parallel()
	c, client := single(t)
	ctx := patiently(t)
	lease := granting(t)(client.Grant(ctx, 600))
	putting(t)(client.Put(ctx, "k", "v", clientv3.WithLease(lease.ID)))
	c.Members[0].Kill()
	if err := c.Members[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := must[*clientv3.LeaseKeepAliveResponse](t)(client.KeepAliveOnce(ctx, lease.ID))
	if kept.TTL != 600 {
		t.Fatalf("kept for %d seconds", kept.TTL)
	}
	revoking(t)(client.Revoke(ctx, lease.ID))
	if got := getting(t)(client.Get(ctx, "k")); got.Count != 0 {
		t.Fatal("the lease forgot its key in the restart")
	}
}

// keepMany grants leases, a few at a time, and keeps each alive from then on.
func keepMany(t *testing.T, client *clientv3.Client) {
	t.Helper()
	failed := make([]error, 64)
	var workers sync.WaitGroup
	for worker := range failed {
		workers.Go(func() {
			for at := worker; at < manyLeases && failed[worker] == nil; at += len(failed) {
				lease, err := client.Grant(t.Context(), manyTTL)
				if err == nil {
					_, err = client.KeepAlive(t.Context(), lease.ID)
				}
				failed[worker] = err
			}
		})
	}
	workers.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

// With several members each renewal needs a round trip between them: one after another they would take too long. All is
// asked of one member, which sees its own history in order.
func TestOneClientKeepsThousandsOfLeases(t *testing.T) {
	t.Parallel()
	client := connect(t, start(t, 3).Endpoints()[0])
	keepMany(t, client)
	ctx := patiently(t)
	// When this lease has ended, each of the others would have ended twice.
	clock := granting(t)(client.Grant(ctx, 2*manyTTL))
	written := putting(t)(client.Put(ctx, "clock", "", clientv3.WithLease(clock.ID)))
	collect(t, client.Watch(ctx, "clock", clientv3.WithRev(written.Header.Revision+1)), 1)
	left := must[*clientv3.LeaseLeasesResponse](t)(client.Leases(ctx))
	if len(left.Leases) != manyLeases {
		t.Fatalf("%d of %d leases are left", len(left.Leases), manyLeases)
	}
}
