package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	// manyClients are clients of all members, with connections of their own.
	manyClients = 8
	// writersOfEach are puts that each of them has under way.
	writersOfEach = 4
)

// clients are many clients of all members. Each has writers and a watch of what they put.
type clients struct {
	stopWriters context.CancelFunc
	stopWatches context.CancelFunc
	writers     sync.WaitGroup
	watchers    sync.WaitGroup
	// puts are those that were acknowledged, of each writer.
	puts    []atomic.Int64
	watched []*watched

	mu     sync.Mutex
	failed []error
}

// watched is what the watch of one client has seen of the keys with its prefix.
type watched struct {
	client *clientv3.Client
	prefix string
	events atomic.Int64

	// What follows is looked at when the watch has ended.
	revisions []int64
	ended     error
}

// startClients returns when each writer has an acknowledged put. The clients know the members that there are now.
func startClients(f *fleet) *clients {
	f.t.Helper()
	writing, stopWriters := context.WithCancel(context.Background())
	watching, stopWatches := context.WithCancel(context.Background())
	c := &clients{stopWriters: stopWriters, stopWatches: stopWatches}
	c.puts = make([]atomic.Int64, manyClients*writersOfEach)
	f.t.Cleanup(func() {
		stopWriters()
		stopWatches()
		c.writers.Wait()
		c.watchers.Wait()
	})
	for n := range manyClients {
		client := f.connect(f.running()...)
		c.watch(watching, client, fmt.Sprintf("many/%d/", n))
		for writer := range writersOfEach {
			c.writers.Add(1)
			prefix := fmt.Sprintf("many/%d/%d/", n, writer)
			go c.write(writing, client, prefix, &c.puts[n*writersOfEach+writer])
		}
	}
	c.goOn(f)
	return c
}

func (c *clients) write(ctx context.Context, client *clientv3.Client, prefix string, count *atomic.Int64) {
	defer c.writers.Done()
	for n := 0; ctx.Err() == nil; n++ {
		call, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
		_, err := client.Put(call, fmt.Sprint(prefix, n), "v")
		end()
		if err != nil {
			c.mu.Lock()
			c.failed = append(c.failed, fmt.Errorf("put %d: %w", n, err))
			c.mu.Unlock()
		} else {
			count.Add(1)
		}
		// A little less than as fast as possible: the members share two cores.
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *clients) watch(ctx context.Context, client *clientv3.Client, prefix string) {
	w := &watched{client: client, prefix: prefix}
	c.watched = append(c.watched, w)
	events := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	c.watchers.Add(1)
	go func() {
		defer c.watchers.Done()
		for response := range events {
			w.ended = errors.Join(w.ended, response.Err())
			for _, event := range response.Events {
				w.revisions = append(w.revisions, event.Kv.ModRevision)
			}
			w.events.Add(int64(len(response.Events)))
		}
		if ctx.Err() == nil {
			w.ended = errors.Join(w.ended, errors.New("the watch ended"))
		}
	}()
}

// goOn waits until each writer has an acknowledged put that began after this.
func (c *clients) goOn(f *fleet) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for writer := range c.puts {
		// The one that is under way now may have begun before.
		until := c.puts[writer].Load() + 2
		for c.puts[writer].Load() < until {
			if time.Now().After(deadline) {
				c.mu.Lock()
				failed := c.failed
				c.mu.Unlock()
				f.t.Fatalf("writer %d has no acknowledged put any more; failed before: %v", writer, failed)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// mustHaveSucceeded ends the load: no call has failed, and each watch has seen each put once.
func (c *clients) mustHaveSucceeded(f *fleet) {
	f.t.Helper()
	c.goOn(f)
	c.stopWriters()
	c.writers.Wait()
	total := int64(0)
	for writer := range c.puts {
		total += c.puts[writer].Load()
	}
	f.t.Logf("%d puts, %d failed", total, len(c.failed))
	if len(c.failed) > 0 {
		f.t.Errorf("%d puts failed: %v", len(c.failed), c.failed)
	}
	for _, w := range c.watched {
		w.mustHaveSeenAll(f)
	}
	c.stopWatches()
	c.watchers.Wait()
	for _, w := range c.watched {
		if w.ended != nil {
			f.t.Errorf("the watch of %s: %v", w.prefix, w.ended)
		}
		for n := 1; n < len(w.revisions); n++ {
			if w.revisions[n] <= w.revisions[n-1] {
				f.t.Errorf("the watch of %s: revision %d after %d", w.prefix, w.revisions[n], w.revisions[n-1])
			}
		}
	}
}

// mustHaveSeenAll waits until a watch has seen as many puts as there are keys: no key is put twice.
func (w *watched) mustHaveSeenAll(f *fleet) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	counted, err := w.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		f.t.Fatal(err)
	}
	for w.events.Load() < counted.Count {
		if ctx.Err() != nil {
			f.t.Fatalf("the watch of %s has seen %d of %d puts", w.prefix, w.events.Load(), counted.Count)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A follower and the leader are stopped and started again, then a follower and the leader are removed. The clients go on
// to know all members.
func TestNoCallFailsWhenMembersStopAndAreRemoved(t *testing.T) {
	t.Parallel()
	f := begin(t, 3, *bin)
	c := startClients(f)
	for _, m := range f.followerAndLeader() {
		if err := m.Terminate(); err != nil {
			t.Fatalf("%s did not stop cleanly: %v", m.Name, err)
		}
		c.goOn(f)
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.goOn(f)
	}
	for _, m := range f.followerAndLeader() {
		f.remove(m)
		c.goOn(f)
	}
	c.mustHaveSucceeded(f)
}

// followerAndLeader are the member that leads and, before it, one that does not.
func (f *fleet) followerAndLeader() []*cluster.Member {
	f.t.Helper()
	leader := f.leader()
	others := slices.DeleteFunc(f.running(), func(m *cluster.Member) bool { return m == leader })
	return []*cluster.Member{others[0], leader}
}
