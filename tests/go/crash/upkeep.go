package crash

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// upkeepEvery is how often history is compacted.
	upkeepEvery = 100 * time.Millisecond
	// defragmentEvery is after how many compactions the next member is told to give back all it can.
	defragmentEvery = 3
	// upkeepTimeout bounds each request: members may be dead.
	upkeepTimeout = 500 * time.Millisecond
	// keptRevisions are never compacted, so there is a past to verify.
	keptRevisions = 500
)

// upkeep compacts history and defragments members in turn, as an operator would, only more often.
type upkeep struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	// What was answered; more may have been done.
	compactions, defragmentations int
}

func startUpkeep(client *clientv3.Client, endpoints []string) *upkeep {
	ctx, cancel := context.WithCancel(context.Background())
	u := &upkeep{cancel: cancel}
	u.wait.Go(func() { u.run(ctx, client, endpoints) })
	return u
}

func (u *upkeep) stop() {
	u.cancel()
	u.wait.Wait()
}

func (u *upkeep) run(ctx context.Context, client *clientv3.Client, endpoints []string) {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		// Failures are part of the game, and the outcome counts what succeeded.
		if compact(ctx, client) == nil {
			u.compactions++
		}
		if n%defragmentEvery == 0 && defragment(ctx, client, endpoints[n/defragmentEvery%len(endpoints)]) == nil {
			u.defragmentations++
		}
	}
}

func compact(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	newest, err := client.Get(ctx, ownedBy(0))
	if err != nil {
		return err
	}
	_, err = client.Compact(ctx, newest.Header.Revision-keptRevisions)
	return err
}

func defragment(ctx context.Context, client *clientv3.Client, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTimeout)
	defer cancel()
	_, err := client.Defragment(ctx, endpoint)
	return err
}
