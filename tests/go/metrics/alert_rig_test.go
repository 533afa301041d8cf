package metrics

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
	"stele.test/netns"
	"stele.test/slowdisk"
)

// stateRig is a cluster under load in a state.
type stateRig struct {
	*cluster.Cluster
	t       *testing.T
	network *netns.Network
	disks   *slowdisk.Disks
	// victim is the member that the state is about, and number its place.
	victim *cluster.Member
	number int
	// clients are those of the members, without a fault of their own.
	clients []*clientv3.Client
	// ended are how many puts of each putter have come to an end.
	ended []*atomic.Int64
}

// load is who puts what, and how fast.
type load struct {
	// of are the members that are asked: all, others or victim; all when empty.
	of      string
	putters int
	bytes   int
	// pause between two puts of a putter.
	pause time.Duration
}

// usual is so little that an unoptimized member on a busy machine has time to spare; and so many putters that more than five
// puts a second fail where each waits seven seconds for its failure.
var usual = load{putters: 64, bytes: 16, pause: time.Second}

// start starts the cluster and its load.
func (r *stateRig) start(ctx context.Context, state state) {
	r.t.Helper()
	size := max(state.size, 1)
	config := cluster.Config{Binary: *bin, Size: size, Args: append([]string{"--metrics=extensive"}, state.args...)}
	if state.isNetworked {
		config.Hosts = r.network.Hosts()
		r.t.Cleanup(func() {
			if err := r.network.Restore(); err != nil {
				r.t.Error(err)
			}
		})
	}
	if state.hasDisks {
		r.disks = slowdisk.New(r.t, size)
		config.Hosts = r.disks.Hosts()
	}
	r.Cluster = cluster.ForTest(r.t, config)
	r.number = r.leads(ctx)
	if !state.victimLeads {
		r.number = (r.number + 1) % size
	}
	r.victim = r.Members[r.number]
	for _, m := range r.Members {
		client, err := clientv3.New(clientConfig(m))
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { client.Close() })
		r.clients = append(r.clients, client)
	}
	r.put(state.load)
	r.settle(ctx)
}

// leads is the place of the member that leads, when all know it.
func (r *stateRig) leads(ctx context.Context) int {
	r.t.Helper()
	found := -1
	r.until(ctx, "a leader of all", func(all map[string]scrape) bool {
		found = slices.IndexFunc(r.Members, func(m *cluster.Member) bool { return all[m.Name].values["etcd_server_is_leader"] == 1 })
		return found >= 0 && r.knowLeader(all) == len(r.Members)
	})
	return found
}

// knowLeader is how many members know a leader.
func (r *stateRig) knowLeader(all map[string]scrape) int {
	count := 0
	for _, s := range all {
		count += int(s.values["etcd_server_has_leader"])
	}
	return count
}

// until scrapes all members again and again, until what they say is so.
func (r *stateRig) until(ctx context.Context, what string, isSo func(all map[string]scrape) bool) {
	r.t.Helper()
	for !isSo(scrapePatiently(ctx, r.Cluster)) {
		if err := pause(ctx); err != nil {
			r.t.Fatalf("%s: %v", what, err)
		}
	}
}

// put begins the load, which ends with the test.
func (r *stateRig) put(load load) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	r.t.Cleanup(func() { cancel(); running.Wait() })
	value := string(bytes.Repeat([]byte("v"), load.bytes))
	for at, client := range r.clients {
		isVictim := at == r.number
		if load.of == "victim" && !isVictim || load.of == "others" && isVictim {
			continue
		}
		for i := range load.putters {
			ended := &atomic.Int64{}
			r.ended = append(r.ended, ended)
			running.Go(func() {
				for ctx.Err() == nil {
					client.Put(ctx, fmt.Sprintf("load/%d/%d", at, i), value)
					ended.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(load.pause):
					}
				}
			})
		}
	}
}

// settle waits until each putter has begun a put after now, and it has come to an end: nothing of before is left.
func (r *stateRig) settle(ctx context.Context) {
	r.t.Helper()
	var before []int64
	for _, ended := range r.ended {
		before = append(before, ended.Load())
	}
	for at, ended := range r.ended {
		for ended.Load() < before[at]+2 {
			if err := pause(ctx); err != nil {
				r.t.Fatalf("a put after the state has changed: %v", err)
			}
		}
	}
}

// ready waits until all members serve.
func (r *stateRig) ready(ctx context.Context) error {
	for _, m := range r.Members {
		if err := m.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}
