package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// collect takes events until there are n.
func collect(t *testing.T, watch clientv3.WatchChan, n int) []*clientv3.Event {
	t.Helper()
	ctx := patiently(t)
	var events []*clientv3.Event
	for len(events) < n {
		select {
		case response, ok := <-watch:
			if !ok || response.Err() != nil {
				t.Fatalf("watch ended after %d of %d events: %v", len(events), n, response.Err())
			}
			events = append(events, response.Events...)
		case <-ctx.Done():
			t.Fatalf("%d of %d events came", len(events), n)
		}
	}
	return events
}

// expectCounted wants the values 0, 1, 2 ... without a gap or a repetition, in rising revisions.
func expectCounted(t *testing.T, events []*clientv3.Event) {
	t.Helper()
	revision := int64(0)
	for i, event := range events {
		if string(event.Kv.Value) != fmt.Sprint(i) {
			t.Fatalf("event %d has value %q", i, event.Kv.Value)
		}
		if event.Kv.ModRevision <= revision {
			t.Fatalf("event %d: revision %d after %d", i, event.Kv.ModRevision, revision)
		}
		revision = event.Kv.ModRevision
	}
}

func TestWatchTellsEveryChange(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	watch := client.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
	if created := <-watch; !created.Created {
		t.Fatalf("first response: %v", created)
	}
	putting(t)(client.Put(ctx, "k", "1"))
	putting(t)(client.Put(ctx, "k", "2"))
	deleting(t)(client.Delete(ctx, "k"))
	events := collect(t, watch, 3)
	if !events[0].IsCreate() || events[0].PrevKv != nil {
		t.Errorf("create: %v", events[0])
	}
	if !events[1].IsModify() || string(events[1].PrevKv.Value) != "1" {
		t.Errorf("modify: %v", events[1])
	}
	if events[2].Type != clientv3.EventTypeDelete || string(events[2].PrevKv.Value) != "2" {
		t.Errorf("delete: %v", events[2])
	}
}

func TestWatchGoesOnAfterAMemberComesBack(t *testing.T) {
	c, client := single(t)
	watch := client.Watch(patiently(t), "counter")
	for i := range 5 {
		put(t, client, "counter", fmt.Sprint(i))
	}
	events := collect(t, watch, 3)
	c.Members[0].Kill()
	if err := c.Members[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 5; i < 10; i++ {
		put(t, client, "counter", fmt.Sprint(i))
	}
	expectCounted(t, append(events, collect(t, watch, 10-len(events))...))
}

func TestWatchFromThePastEndsAtACompaction(t *testing.T) {
	_, client := single(t)
	ctx := patiently(t)
	first := putting(t)(client.Put(ctx, "k", "1"))
	second := putting(t)(client.Put(ctx, "k", "2"))
	must[*clientv3.CompactResponse](t)(client.Compact(ctx, second.Header.Revision))
	response := <-client.Watch(ctx, "k", clientv3.WithRev(first.Header.Revision))
	if !errors.Is(response.Err(), rpctypes.ErrCompacted) || response.CompactRevision != second.Header.Revision {
		t.Fatalf("watch below the compaction: %v", response)
	}
	if events := collect(t, client.Watch(ctx, "k", clientv3.WithRev(second.Header.Revision)), 1); string(events[0].Kv.Value) != "2" {
		t.Fatalf("watch at the compaction: %v", events)
	}
}

func TestProgressIsToldWithoutEvents(t *testing.T) {
	c := start(t, 1, "--watch-progress-notify-interval=100ms")
	client := connect(t, c.Endpoints()...)
	ctx := patiently(t)
	watch := client.Watch(clientv3.WithRequireLeader(ctx), "nothing", clientv3.WithProgressNotify())
	written := putting(t)(client.Put(ctx, "other", "1"))
	for response := range watch {
		if response.IsProgressNotify() && response.Header.Revision >= written.Header.Revision {
			return
		}
	}
	t.Fatal("the watch ended without progress")
}

func TestManyWatchersSeeTheSame(t *testing.T) {
	_, client := single(t)
	ctx, cancel := context.WithCancel(patiently(t))
	defer cancel()
	const watchers, writes = 50, 100
	var watches []clientv3.WatchChan
	for range watchers {
		watch := client.Watch(ctx, "counter", clientv3.WithCreatedNotify())
		<-watch
		watches = append(watches, watch)
	}
	for i := range writes {
		putting(t)(client.Put(ctx, "counter", fmt.Sprint(i)))
	}
	for _, watch := range watches {
		expectCounted(t, collect(t, watch, writes))
	}
}

// A program that watches thousands of keys at once, such as a cache that starts, does not wait for each answer.
func TestThousandsOfWatchesAreCreatedAtOnce(t *testing.T) {
	const watches = 20_000
	_, client := single(t)
	ctx := patiently(t)
	stream := must[pb.Watch_WatchClient](t)(pb.NewWatchClient(client.ActiveConnection()).Watch(ctx))
	create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}
	for range watches {
		if err := stream.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range int64(watches) {
		answer := must[*pb.WatchResponse](t)(stream.Recv())
		if !answer.Created || answer.WatchId != id {
			t.Fatalf("instead of watch %d: %v", id, answer)
		}
	}
}
