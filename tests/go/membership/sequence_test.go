package membership

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

var (
	sequence = flag.Bool("sequence", false, "measure puts while a cluster grows, is repaired and shrinks, beside etcd's")
	rate     = flag.Int("rate", 200, "puts a second of -sequence")
	pause    = flag.Duration("pause", 5*time.Second, "time between two steps of -sequence")
)

const (
	// putTimeout is how long a client waits for one put.
	putTimeout = 15 * time.Second
	// maxWaiting bounds the puts under way: more than the rate makes in the time-out.
	maxWaiting = 4096
)

// schedule makes puts at fixed times, whether those before them are answered or not, so that a pause is seen by all
// puts that it delays. A latency begins at the time at which the put should have begun.
type schedule struct {
	client *clientv3.Client
	stop   chan struct{}
	done   sync.WaitGroup

	mu           sync.Mutex
	latencies    []time.Duration
	acknowledged []string
	failures     map[string]int
	skipped      int
}

func startSchedule(client *clientv3.Client, perSecond int) *schedule {
	s := &schedule{client: client, stop: make(chan struct{}), failures: map[string]int{}}
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		waiting := make(chan struct{}, maxWaiting)
		began := time.Now()
		for n := 0; ; n++ {
			due := began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))
			select {
			case <-s.stop:
				return
			case <-time.After(time.Until(due)):
			}
			select {
			case waiting <- struct{}{}:
			default:
				s.mu.Lock()
				s.skipped++
				s.mu.Unlock()
				continue
			}
			s.done.Add(1)
			go func() {
				defer s.done.Done()
				s.put(fmt.Sprintf("load/%d", n), due)
				<-waiting
			}()
		}
	}()
	return s
}

func (s *schedule) put(key string, due time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), putTimeout)
	defer cancel()
	_, err := s.client.Put(ctx, key, strings.Repeat("v", 256))
	took := time.Since(due)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latencies = append(s.latencies, took)
	if err == nil {
		s.acknowledged = append(s.acknowledged, key)
	} else {
		s.failures[err.Error()]++
	}
}

// end stops the puts and waits for those under way.
func (s *schedule) end() {
	close(s.stop)
	s.done.Wait()
}

// percentile is the latency that a part of the puts, in thousandths, do not exceed.
func (s *schedule) percentile(thousandths int) time.Duration {
	return s.latencies[min(len(s.latencies)-1, len(s.latencies)*thousandths/1000)]
}

// report prints what was measured, and fails if an acknowledged put is lost.
func (s *schedule) report(t *testing.T, name string, client *clientv3.Client, took time.Duration) {
	t.Helper()
	response, err := client.Get(t.Context(), "load/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, kv := range response.Kvs {
		found[string(kv.Key)] = true
	}
	lost := 0
	for _, key := range s.acknowledged {
		if !found[key] {
			lost++
		}
	}
	if lost > 0 || len(s.acknowledged) == 0 {
		t.Errorf("%d of %d acknowledged puts are lost", lost, len(s.acknowledged))
	}
	slices.Sort(s.latencies)
	fmt.Printf("%-8s %6.1f s, %6d puts, %4d failed, %4d skipped   p50 %v   p99 %v   p99.9 %v   worst %v\n",
		name, took.Seconds(), len(s.latencies), len(s.latencies)-len(s.acknowledged), s.skipped,
		s.percentile(500), s.percentile(990), s.percentile(999), s.latencies[len(s.latencies)-1])
	for text, count := range s.failures {
		fmt.Printf("%-8s failed %d times: %s\n", name, count, text)
	}
}

// TestPutsOverTheLifeOfACluster measures puts while members come and go: 1 to 3 to 5 members, all restarted, one of
// them wiped and replaced, back to 3 and to 1. The same for etcd.
func TestPutsOverTheLifeOfACluster(t *testing.T) {
	if !*sequence {
		t.Skip("takes minutes and a quiet machine: -sequence")
	}
	for _, binary := range []string{*bin, cluster.EtcdPath()} {
		name := filepath.Base(binary)
		t.Run(name, func(t *testing.T) {
			f := &fleet{t: t, binary: binary, cluster: cluster.ForTest(t, cluster.Config{Binary: binary, Size: 1})}
			f.client = f.connect(f.cluster.Members...)
			puts := startSchedule(f.client, *rate)
			began := time.Now()
			f.live()
			puts.end()
			puts.report(t, name, f.client, time.Since(began))
		})
	}
}

// live goes through the sequence.
func (f *fleet) live() {
	f.t.Helper()
	pauseHere := func() { time.Sleep(*pause) }
	for range 4 {
		pauseHere()
		f.join(true)
	}
	for _, m := range f.running() {
		pauseHere()
		_ = m.Terminate()
		if err := m.Restart(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	pauseHere()
	lost := f.cluster.Members[2]
	lost.Kill()
	if err := os.RemoveAll(lost.DataDir); err != nil {
		f.t.Fatal(err)
	}
	f.remove(lost)
	f.join(true)
	for len(f.running()) > 1 {
		pauseHere()
		m := f.running()[0]
		id := f.idOf(m)
		f.retry("remove "+m.Name, func(ctx context.Context) error {
			_, err := f.client.MemberRemove(ctx, id)
			if isGone(err) {
				return nil
			}
			return err
		})
		f.follow()
		f.mustEndRemoved(m)
		m.Kill()
	}
	pauseHere()
}

// isGone says that a member was removed by an attempt whose answer was lost.
func isGone(err error) bool { return errors.Is(err, rpctypes.ErrMemberNotFound) }
