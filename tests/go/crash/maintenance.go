package crash

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// compactEvery is how often history is compacted.
	compactEvery = 100 * time.Millisecond
	// defragmentEvery is the number of compactions between two defragmentations, each of the next member.
	defragmentEvery = 3
	// maintenanceTimeout bounds each request: its member may be down.
	maintenanceTimeout = 500 * time.Millisecond
	// keptRevisions are never compacted, so that there is history to verify.
	keptRevisions = 500
)

// maintenance compacts history and defragments one member after the other, more often than an operator would.
type maintenance struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	// Requests that were answered; more may have taken effect.
	compactions, defragmentations int
}

func startMaintenance(client *clientv3.Client, endpoints []string) *maintenance {
	ctx, cancel := context.WithCancel(context.Background())
	m := &maintenance{cancel: cancel}
	m.wait.Go(func() { m.run(ctx, client, endpoints) })
	return m
}

func (m *maintenance) stop() {
	m.cancel()
	m.wait.Wait()
}

func (m *maintenance) run(ctx context.Context, client *clientv3.Client, endpoints []string) {
	ticker := time.NewTicker(compactEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		// Requests fail while members are down; the outcome counts those that succeeded.
		if compact(ctx, client) == nil {
			m.compactions++
		}
		if n%defragmentEvery == 0 && defragment(ctx, client, endpoints[n/defragmentEvery%len(endpoints)]) == nil {
			m.defragmentations++
		}
	}
}

func compact(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, maintenanceTimeout)
	defer cancel()
	newest, err := client.Get(ctx, ownedBy(0))
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, newest.Header.Revision-keptRevisions)
	return err
}

func defragment(ctx context.Context, client *clientv3.Client, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, maintenanceTimeout)
	defer cancel()
	_, err := client.Defragment(ctx, endpoint)
	return err
}
