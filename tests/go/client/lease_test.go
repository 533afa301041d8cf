package client_test

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const shortTTL = 2

func TestAKeptLeaseLivesAndAnAbandonedOneEnds(t *testing.T) {
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
