package crash

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// writeTimeout is how long a writer waits for one write before it takes its outcome as unknown.
const writeTimeout = 3 * time.Second

// history is what one key's only writer knows of it. Values are the numbers 1, 2, 3 ...; a write whose outcome
// is unknown may still take effect, also later, and is never repeated with the same number.
type history struct {
	key string
	// attempted is the last number sent.
	attempted int
	// acknowledged is the last number whose write was acknowledged, at that revision.
	acknowledged int
	revision     int64
	// writes is how many were acknowledged, unknown of how many nothing is known.
	writes, unknown int
}

// write sends the next number and notes what came of it.
func (h *history) write(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	h.attempted++
	response, err := client.Put(ctx, h.key, fmt.Sprint(h.attempted))
	if err != nil {
		h.unknown++
		return nil
	}
	if response.Header.Revision <= h.revision {
		return fmt.Errorf("%s: a write was acknowledged at revision %d after one at %d", h.key, response.Header.Revision, h.revision)
	}
	h.acknowledged, h.revision = h.attempted, response.Header.Revision
	h.writes++
	return nil
}

// load is a number of writers, each with its own keys.
type load struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	keys   [][]*history
	errs   []error
	// progress tells of acknowledged writes while somebody listens.
	progress chan struct{}
}

// startLoad begins to write with one client a writer, until stop.
func startLoad(clients []*clientv3.Client, keysEach int) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{
		cancel: cancel, progress: make(chan struct{}),
		keys: make([][]*history, len(clients)), errs: make([]error, len(clients)),
	}
	for i, client := range clients {
		for k := range keysEach {
			l.keys[i] = append(l.keys[i], &history{key: fmt.Sprintf("writer/%02d/%02d", i, k)})
		}
		l.wait.Go(func() { l.errs[i] = l.writeAll(ctx, client, l.keys[i]) })
	}
	return l
}

func (l *load) writeAll(ctx context.Context, client *clientv3.Client, keys []*history) error {
	for n := 0; ctx.Err() == nil; n++ {
		h := keys[n%len(keys)]
		before := h.writes
		if err := h.write(ctx, client); err != nil {
			return err
		}
		if h.writes > before {
			select {
			case l.progress <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// await returns after that many more acknowledged writes, of any writer.
func (l *load) await(ctx context.Context, writes int) error {
	for n := range writes {
		select {
		case <-l.progress:
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d writes were acknowledged: %w", n, writes, ctx.Err())
		}
	}
	return nil
}

// stop ends the writers and returns all that they know.
func (l *load) stop() ([]*history, error) {
	l.cancel()
	l.wait.Wait()
	var all []*history
	for i, keys := range l.keys {
		if l.errs[i] != nil {
			return nil, l.errs[i]
		}
		all = append(all, keys...)
	}
	return all, nil
}
