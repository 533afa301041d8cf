// Package membership grows, repairs and shrinks clusters of real processes with etcd's Go client, under load.
package membership

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// Short timeouts: a member counts as healthy once it has been connected for an election timeout.
var quick = []string{"--heartbeat-interval=20", "--election-timeout=300"}

// A member that is added may be refused until those before it count as healthy; etcd waits five seconds.
const patience = 60 * time.Second

// fleet is a cluster whose members come and go, with a client that follows them.
type fleet struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  *clientv3.Client
	// binary is what members that join run, with these flags; empty is the tested server with short timeouts.
	binary string
	flags  []string
	// written is how often writeEverything was called.
	written int
}

func begin(t *testing.T, size int, binary string) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{Binary: binary, Size: size, Args: quick})}
	f.client = f.connect(f.cluster.Members...)
	return f
}

// connect makes a client of some members.
func (f *fleet) connect(members ...*cluster.Member) *clientv3.Client {
	f.t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.ClientURL)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return client
}

// listed are the members as the cluster lists them.
func (f *fleet) listed() []*clusterMember {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	response, err := f.client.MemberList(ctx)
	if err != nil {
		f.t.Fatalf("list members: %v", err)
	}
	var all []*clusterMember
	for _, m := range response.Members {
		all = append(all, &clusterMember{id: m.ID, name: m.Name, peerURL: m.PeerURLs[0], learner: m.IsLearner})
	}
	return all
}

type clusterMember struct {
	id      uint64
	name    string
	peerURL string
	learner bool
}

// retry repeats a change while the cluster finds too few members healthy.
func (f *fleet) retry(what string, change func(context.Context) error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		err := change(ctx)
		if err == nil {
			return
		}
		waits := errors.Is(err, rpctypes.ErrUnhealthy) || errors.Is(err, rpctypes.ErrMemberNotEnoughStarted) ||
			errors.Is(err, rpctypes.ErrMemberLearnerNotReady)
		if !waits || ctx.Err() != nil {
			f.t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// join adds a member, as a learner that is promoted or as a voter at once, and waits until it serves.
func (f *fleet) join(asLearner bool) {
	f.t.Helper()
	binary, flags := *bin, quick
	if f.binary != "" {
		binary, flags = f.binary, f.flags
	}
	m, err := f.cluster.Layout(binary, flags...)
	if err != nil {
		f.t.Fatal(err)
	}
	var id uint64
	peers := map[string]string{m.Name: m.PeerURL}
	f.retry("add "+m.Name, func(ctx context.Context) error {
		add := f.client.MemberAdd
		if asLearner {
			add = f.client.MemberAddAsLearner
		}
		response, err := add(ctx, []string{m.PeerURL})
		if err != nil {
			return err
		}
		// Not asked for again: the second voter is part of the quorum already, and does not run yet.
		id = response.Member.ID
		for _, listed := range response.Members {
			if listed.Name != "" {
				peers[listed.Name] = listed.PeerURLs[0]
			}
		}
		return nil
	})
	m.JoinExisting(peers)
	if err := m.Restart(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	if asLearner {
		f.retry("promote "+m.Name, func(ctx context.Context) error {
			_, err := f.client.MemberPromote(ctx, id)
			return err
		})
	}
	f.follow()
}

// remove removes a member; one that runs must end by itself, and must not start again.
func (f *fleet) remove(m *cluster.Member) {
	f.t.Helper()
	var id uint64
	for _, listed := range f.listed() {
		// The name is listed only when the member has published itself; a member that has moved is known by it.
		if listed.name == m.Name || listed.peerURL == m.PeerURL {
			id = listed.id
		}
	}
	f.retry("remove "+m.Name, func(ctx context.Context) error {
		_, err := f.client.MemberRemove(ctx, id)
		if errors.Is(err, rpctypes.ErrMemberNotFound) {
			// The answer to an attempt before this one was lost.
			return nil
		}
		return err
	})
	f.follow()
	if !m.Running() {
		return
	}
	f.mustEndRemoved(m)
	if err := m.Terminate(); err == nil {
		f.t.Fatalf("%s ended without an error", m.Name)
	}
	if err := m.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.mustEndRemoved(m)
	m.Kill()
}

// mustEndRemoved waits until a member has ended because it was removed.
func (f *fleet) mustEndRemoved(m *cluster.Member) {
	f.t.Helper()
	f.mustEndSaying(m, "has been permanently removed from the cluster")
}

// mustEndSaying waits until a member has ended by itself and has said why; it returns what its run printed.
func (f *fleet) mustEndSaying(m *cluster.Member, text string) string {
	f.t.Helper()
	f.cluster.AllowErrors(text, "the cluster refuses this member")
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if !m.Ended(ctx) {
		f.t.Fatalf("%s should say %q and end, and still runs", m.Name, text)
	}
	log, err := m.RunLog()
	if err != nil {
		f.t.Fatal(err)
	}
	if !strings.Contains(log, text) {
		f.t.Fatalf("%s ended and does not say %q:\n%s", m.Name, text, log)
	}
	return log
}

// waitForLog waits until the current run of a member has logged something.
func (f *fleet) waitForLog(m *cluster.Member, text string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for {
		log, err := m.RunLog()
		if err != nil {
			f.t.Fatal(err)
		}
		if strings.Contains(log, text) {
			return
		}
		select {
		case <-ctx.Done():
			f.t.Fatalf("%s never logged %q:\n%s", m.Name, text, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// follow lets the client learn which members there are.
func (f *fleet) follow() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := f.client.Sync(ctx); err != nil {
		f.t.Fatalf("sync endpoints: %v", err)
	}
}

// load puts key after key until it is stopped, and remembers those that were acknowledged.
type load struct {
	mu           sync.Mutex
	acknowledged []string
	failures     []error
	stop         context.CancelFunc
	done         sync.WaitGroup
}

// startLoad returns when each writer has an acknowledged put: what happens to the members comes after that.
func startLoad(f *fleet) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	const writers = 2
	begun := make(chan struct{}, writers)
	for writer := range writers {
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			hasBegun := false
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("load/%d/%d", writer, n)
				call, end := context.WithTimeout(context.WithoutCancel(ctx), patience)
				_, err := f.client.Put(call, key, strings.Repeat("v", 200))
				end()
				l.note(key, err)
				if err == nil && !hasBegun {
					hasBegun = true
					begun <- struct{}{}
				}
				// A little less than as fast as possible: the members share two cores.
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		}()
	}
	f.t.Cleanup(l.end)
	for range writers {
		select {
		case <-begun:
		case <-time.After(patience):
			f.t.Fatal("no put was acknowledged")
		}
	}
	return l
}

func (l *load) note(key string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acknowledged = append(l.acknowledged, key)
	} else {
		l.failures = append(l.failures, err)
	}
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// maxFailures is how many puts may fail while members are killed, for each kill. A put that is under way at a member that
// is killed, or was forwarded to one, may have been carried out or not, so neither the server nor the client repeats it:
// each of two writers has one put under way (RFC 0023). Members that stop or are removed fail none.
const maxFailures = 2

// isRetriable says whether a caller may try again: the outcome is unknown, or nothing was done.
func isRetriable(err error) bool {
	code := status.Code(err)
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		code = known.Code()
	}
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// verify reads everything that was acknowledged, and looks at what failed while so many members were killed.
func (l *load) verify(f *fleet, kills int) {
	f.t.Helper()
	l.end()
	response, err := f.client.Get(f.t.Context(), "load/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		f.t.Fatal(err)
	}
	found := map[string]bool{}
	for _, kv := range response.Kvs {
		found[string(kv.Key)] = true
	}
	for _, key := range l.acknowledged {
		if !found[key] {
			f.t.Errorf("%s was acknowledged and is lost", key)
		}
	}
	f.t.Logf("%d puts acknowledged, %d failed: %v", len(l.acknowledged), len(l.failures), l.failures)
	for _, err := range l.failures {
		if !isRetriable(err) {
			f.t.Errorf("a put failed with what a caller may not try again: %v", err)
		}
	}
	if len(l.failures) > kills*maxFailures {
		f.t.Errorf("%d puts failed, more than %d for each of %d kills", len(l.failures), maxFailures, kills)
	}
	if len(l.acknowledged) == 0 {
		f.t.Error("nothing was written")
	}
}

func TestAClusterGrowsLosesAMemberAndShrinksUnderLoad(t *testing.T) {
	t.Parallel()
	f := begin(t, 1, *bin)
	l := startLoad(f)
	synced := f.synced(f.cluster.Members[0])
	f.join(false)
	f.join(true)
	f.join(true)
	f.join(false)

	// The disk of one member is lost: it is replaced by another one.
	lost := f.cluster.Members[2]
	lost.Kill()
	if err := os.RemoveAll(lost.DataDir); err != nil {
		t.Fatal(err)
	}
	f.remove(lost)
	f.join(true)

	// All members are restarted, one after the other.
	for _, m := range f.running() {
		_ = m.Terminate()
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	// The last one that is left is none of those that were there at first. Clients follow by themselves.
	f.mustKnowOnlyRunning(synced)
	for len(f.running()) > 1 {
		f.remove(f.running()[0])
	}
	f.mustKnowOnlyRunning(synced)
	if err := cluster.PutUntilAnswered(t.Context(), synced, "synced", "1"); err != nil {
		t.Errorf("a client that syncs its endpoints: %v", err)
	}
	l.verify(f, 1)
}

// synced is a client that knows one member and learns the others by itself.
func (f *fleet) synced(m *cluster.Member) *clientv3.Client {
	f.t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{m.ClientURL}, DialTimeout: patience, Logger: zap.NewNop(),
		AutoSyncInterval: 200 * time.Millisecond,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return client
}

// mustKnowOnlyRunning waits until the endpoints of a client are those of the members that run.
func (f *fleet) mustKnowOnlyRunning(client *clientv3.Client) {
	f.t.Helper()
	var expected []string
	for _, m := range f.running() {
		expected = append(expected, m.ClientURL)
	}
	slices.Sort(expected)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		found := slices.Clone(client.Endpoints())
		slices.Sort(found)
		if slices.Equal(found, expected) {
			return
		}
		if time.Since(began) > patience {
			f.t.Fatalf("the client knows %v, and %v run", found, expected)
		}
	}
}

// running are the members whose processes run.
func (f *fleet) running() []*cluster.Member {
	var all []*cluster.Member
	for _, m := range f.cluster.Members {
		if m.Running() {
			all = append(all, m)
		}
	}
	return all
}

func TestALeaderThatStopsLeavesItsLeadershipBehind(t *testing.T) {
	// With the usual timeouts: a busy machine elects no other leader meanwhile, unless it holds a member up for long.
	f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3})}
	f.client = f.connect(f.cluster.Members...)
	const attempts = 5
	for attempt := 1; ; attempt++ {
		// One voter is down: the other one must be chosen.
		leader := f.leader()
		follower := f.cluster.Members[0]
		if follower == leader {
			follower = f.cluster.Members[1]
		}
		follower.Kill()
		f.waitForLog(leader, "peer became inactive")
		if err := leader.Terminate(); err != nil {
			t.Fatalf("the leader did not stop cleanly: %v", err)
		}
		log, err := leader.RunLog()
		if err == nil && strings.Contains(log, `"msg":"leadership transfer before shutdown","ok":true`) {
			return
		}
		if err != nil || attempt == attempts {
			t.Fatalf("leadership was not transferred (%v):\n%s", err, log)
		}
		for _, m := range []*cluster.Member{follower, leader} {
			f.mustStart(m)
		}
		for _, m := range f.cluster.Members {
			f.mustServe(m)
		}
	}
}
