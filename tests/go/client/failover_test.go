package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// leader asks the members until one of them says that it leads.
func leader(t *testing.T, c *cluster.Cluster, client *clientv3.Client) *cluster.Member {
	t.Helper()
	ctx := patiently(t)
	for ctx.Err() == nil {
		for _, m := range c.Members {
			if !m.Running() {
				continue
			}
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			status, err := client.Status(attempt, m.ClientURL)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				return m
			}
		}
	}
	t.Fatal("no member says that it leads")
	return nil
}

// TestWritesGoOn hurts the leader in each way under a watch that must tell every acknowledged write once.
func TestWritesGoOn(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]struct{ down, up func(*cluster.Member) error }{
		"after the leader is killed": {
			func(m *cluster.Member) error { m.Kill(); return nil },
			func(m *cluster.Member) error { return m.Restart(context.Background()) },
		},
		"after the leader is terminated": {
			func(m *cluster.Member) error { _ = m.Terminate(); return nil },
			func(m *cluster.Member) error { return m.Restart(context.Background()) },
		},
		"while the leader is frozen": {
			func(m *cluster.Member) error { return m.Freeze() },
			func(m *cluster.Member) error {
				if err := m.Thaw(); err != nil {
					return err
				}
				return m.WaitReady(context.Background())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, 3)
			client := connect(t, c.Endpoints()...)
			watch := client.Watch(patiently(t), "k/", clientv3.WithPrefix(), clientv3.WithRev(1))
			write := func(from, to int) {
				for i := from; i < to; i++ {
					put(t, client, fmt.Sprintf("k/%d", i), fmt.Sprint(i))
				}
			}
			write(0, 10)
			old := leader(t, c, client)
			if err := hurt.down(old); err != nil {
				t.Fatal(err)
			}
			write(10, 20)
			if err := hurt.up(old); err != nil {
				t.Fatal(err)
			}
			write(20, 30)
			expectEachOnceInOrder(t, watch, 30)
			expectEqualMembers(t, c)
		})
	}
}

const (
	// An election that waits for the timeout takes ten to twenty seconds.
	slowElection = "--election-timeout=10000"
	slowTicks    = "--heartbeat-interval=500"
	// maxFailover is how long it takes at most without that wait. Other processes may hold members up, so one of some
	// attempts counts.
	maxFailover  = 5 * time.Second
	maxFailovers = 3
)

// A process that is gone refuses connections, so its leadership is over; one that is silent may come back.
func TestAKilledLeaderIsReplacedAtOnceAndAFrozenOneIsNot(t *testing.T) {
	t.Parallel()
	c := start(t, 3, slowElection, slowTicks)
	client := connect(t, c.Endpoints()...)
	put(t, client, "first", "1")
	frozen := leader(t, c, client)
	before := must[*clientv3.StatusResponse](t)(client.Status(patiently(t), frozen.ClientURL))
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		for _, m := range c.Members {
			if m == frozen {
				continue
			}
			now := must[*clientv3.StatusResponse](t)(client.Status(patiently(t), m.ClientURL))
			if now.RaftTerm != before.RaftTerm || now.Leader != before.Leader {
				t.Fatalf("the frozen leader %x of term %d was replaced: %v", before.Leader, before.RaftTerm, now)
			}
		}
	}
	if err := frozen.Thaw(); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; ; attempt++ {
		put(t, client, "before", "1")
		old := leader(t, c, client)
		var others []string
		for _, m := range c.Members {
			if m != old {
				others = append(others, m.ClientURL)
			}
		}
		survivors := connect(t, others...)
		put(t, survivors, "connected", "1")
		began := time.Now()
		old.Kill()
		for {
			ctx, cancel := context.WithTimeout(patiently(t), time.Second)
			_, err := survivors.Put(ctx, "after", "1")
			cancel()
			if err == nil {
				break
			}
			if time.Since(began) > patience {
				t.Fatal(err)
			}
		}
		took := time.Since(began)
		if took <= maxFailover {
			return
		}
		if attempt == maxFailovers {
			t.Fatalf("a put succeeded %v after the leader was killed", took)
		}
		if err := old.Restart(patiently(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// expectEachOnceInOrder follows a watch to the last key. A write that was repeated after an unknown outcome may
// be there twice, at two revisions, but no revision comes twice and no key is left out.
func expectEachOnceInOrder(t *testing.T, watch clientv3.WatchChan, keys int) {
	t.Helper()
	seen, revision := map[string]bool{}, int64(0)
	for len(seen) < keys {
		for _, event := range collect(t, watch, 1) {
			if event.Kv.ModRevision <= revision {
				t.Fatalf("revision %d after %d", event.Kv.ModRevision, revision)
			}
			revision = event.Kv.ModRevision
			seen[string(event.Kv.Key)] = true
		}
	}
}

// expectEqualMembers asks each member by itself: a linearizable read first, so that it has caught up.
func expectEqualMembers(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := patiently(t)
	var hashes []uint32
	revision := int64(0)
	for _, m := range c.Members {
		client := connect(t, m.ClientURL)
		got := getting(t)(client.Get(ctx, "k/", clientv3.WithPrefix(), clientv3.WithCountOnly()))
		revision = max(revision, got.Header.Revision)
		hash := must[*clientv3.HashKVResponse](t)(client.HashKV(ctx, m.ClientURL, revision))
		hashes = append(hashes, hash.Hash)
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Fatalf("the members' hashes at revision %d are %v", revision, hashes)
	}
}
