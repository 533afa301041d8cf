package partition

import (
	"context"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// change is one event that a watcher receives.
type change struct {
	revision   int64
	key, value string
}

// watcher follows one member from the first revision on, through every loss of its connection.
type watcher struct {
	mu      sync.Mutex
	changes []change
	err     error
	// moved receives a signal for each change while until runs.
	moved chan struct{}
}

// watch follows everything that the client's member says.
func watch(ctx context.Context, client *clientv3.Client) *watcher {
	w := &watcher{moved: make(chan struct{}, 1)}
	stream := client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1))
	go func() {
		for response := range stream {
			w.take(response)
		}
	}()
	return w
}

func (w *watcher) take(response clientv3.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := response.Err(); err != nil {
		w.err = err
	}
	for _, event := range response.Events {
		c := change{revision: event.Kv.ModRevision, key: string(event.Kv.Key)}
		if event.Type == mvccpb.PUT {
			c.value = string(event.Kv.Value)
		}
		w.changes = append(w.changes, c)
	}
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// until waits for a revision and returns everything up to it.
func (w *watcher) until(ctx context.Context, revision int64) ([]change, error) {
	for {
		w.mu.Lock()
		changes, err := w.changes, w.err
		w.mu.Unlock()
		if len(changes) > 0 && changes[len(changes)-1].revision >= revision {
			return changes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("a watch ended: %w", err)
		}
		select {
		case <-w.moved:
		case <-ctx.Done():
			return nil, fmt.Errorf("a watch has not reached revision %d after %d changes: %w", revision, len(changes), ctx.Err())
		}
	}
}

// complete checks what one watcher received: every revision once and in order, for each of them makes one change here;
// and each acknowledged change as it was acknowledged.
func complete(changes []change, all []operation) error {
	received := map[int64]change{}
	for i, c := range changes {
		if expected := int64(i) + firstRevision; c.revision != expected {
			return fmt.Errorf("change %d has revision %d instead of %d", i, c.revision, expected)
		}
		received[c.revision] = c
	}
	for _, o := range all {
		if !o.changes() {
			continue
		}
		c, seen := received[o.answer.header]
		if !seen || c.key != o.request.key || c.value != o.request.value {
			return fmt.Errorf("the watch tells %v of %v", c, o)
		}
	}
	return nil
}
