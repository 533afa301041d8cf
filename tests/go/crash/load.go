package crash

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// writeTimeout is how long a writer waits for one write before its outcome counts as unknown.
const writeTimeout = 3 * time.Second

// Keys of a writer. Most writes go to a few keys and are soon superseded; one in coldKeyEvery goes to one of many keys, and
// its value lives long. So old files hold few live values, which must be relocated before the files can be freed.
const (
	hotKeys      = 10
	coldKeys     = 100
	coldKeyEvery = 8
)

// Values have a length between these: a few thousand fill a segment.
const (
	minValueBytes = 1 << 10
	maxValueBytes = 24 << 10
)

// history is what the only writer of a key knows of it. Writes are numbered 1, 2, 3 ...; a write of unknown outcome may
// take effect at any later time and is never repeated with the same number.
type history struct {
	key string
	// attempted is the last number sent.
	attempted int
	// acknowledged is the last number whose write was acknowledged, at that revision.
	acknowledged int
	revision     int64
	// writes counts the acknowledged ones, unknown those of unknown outcome.
	writes, unknown int
}

// value is what the write with this number puts: the number, then bytes that are derived from key and number, so that a
// value that is damaged, truncated or of another key is recognized.
func value(key string, number int) string {
	random := rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%s %d", key, number)))
	filler := make([]byte, minValueBytes+rand.New(random).IntN(maxValueBytes-minValueBytes))
	// It never fails.
	_, _ = random.Read(filler)
	return fmt.Sprintf("%d %s", number, filler)
}

// write sends the next number and records the outcome.
func (h *history) write(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	h.attempted++
	response, err := client.Put(ctx, h.key, value(h.key, h.attempted))
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
	// progress receives one signal per acknowledged write while await runs.
	progress chan struct{}
}

// startLoad begins to write with one client a writer, until stop.
func startLoad(clients []*clientv3.Client) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{
		cancel: cancel, progress: make(chan struct{}),
		keys: make([][]*history, len(clients)), errs: make([]error, len(clients)),
	}
	for i, client := range clients {
		for k := range hotKeys + coldKeys {
			l.keys[i] = append(l.keys[i], &history{key: fmt.Sprintf("%s%03d", ownedBy(i), k)})
		}
		l.wait.Go(func() { l.errs[i] = l.writeAll(ctx, client, l.keys[i]) })
	}
	return l
}

// ownedBy is the prefix of a writer's keys.
func ownedBy(writer int) string { return fmt.Sprintf("writer/%02d/", writer) }

func (l *load) writeAll(ctx context.Context, client *clientv3.Client, keys []*history) error {
	for n := 0; ctx.Err() == nil; n++ {
		h := keys[n%hotKeys]
		if n%coldKeyEvery == 0 {
			h = keys[hotKeys+n/coldKeyEvery%coldKeys]
		}
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

// await returns after this many more acknowledged writes of any writers.
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

// stop ends the writers; what they know is then in their keys.
func (l *load) stop() error {
	l.cancel()
	l.wait.Wait()
	return errors.Join(l.errs...)
}
