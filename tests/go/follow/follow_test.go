// Package follow copies running clusters into others with `stele ctl follow`, from etcd to Stele and back, under load.
package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// stateKey is where a copy notes in the destination how far it has come.
const stateKey = "stele-follow"

// direction says which system is copied into which.
type direction struct{ name, source, destination string }

func directions() []direction {
	return []direction{
		{"EtcdToStele", cluster.EtcdPath(), cluster.StelePath()},
		{"SteleToEtcd", cluster.StelePath(), cluster.EtcdPath()},
	}
}

// TestACopyHasEverythingInOrder follows a cluster under load: the source is compacted, the leader of the destination is
// killed, and the copy is interrupted and goes on.
func TestACopyHasEverythingInOrder(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := cluster.ForTest(t, cluster.Config{Binary: d.source})
			destination := cluster.ForTest(t, cluster.Config{Binary: d.destination, Size: 3})
			from, to := connect(t, source), connect(t, destination)
			preload(t, from)
			pairs := watchPairs(t, to)
			stop := load(t, from)

			f := start(t, source, destination)
			f.says(t, "caught up with revision")
			killLeader(t, destination, to)
			arrives(t, from, to)
			f.interrupted(t)

			// The load may have written nothing since, on a slow disk.
			for range 3 {
				_, err := from.Put(patiently(t), "ahead", "x")
				check(t, err)
			}
			compactAll(t, from)
			f = start(t, source, destination)
			f.says(t, "the source has compacted what was to be read next")
			f.says(t, "caught up with revision")
			compactAll(t, from)
			stop()
			f.interrupted(t)

			out := mustEnd(t, start(t, source, destination, "--until-caught-up", "--verify", "--finish"))
			if !strings.Contains(out, "verified: ") || !strings.Contains(out, "removed the state key") {
				t.Errorf("the end says %s", out)
			}
			compare(t, from, to, false)
			pairs(t, from)
		})
	}
}

// TestRevisionsAreKept copies a compacted source, and what it writes meanwhile, with its revisions.
func TestRevisionsAreKept(t *testing.T) {
	t.Parallel()
	for _, d := range directions() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source := cluster.ForTest(t, cluster.Config{Binary: d.source})
			destination := cluster.ForTest(t, cluster.Config{Binary: d.destination})
			from, to := connect(t, source), connect(t, destination)
			preload(t, from)
			compacted := compactAll(t, from)
			stop := load(t, from)
			f := start(t, source, destination, "--keep-revisions")
			f.says(t, "the source is compacted at revision")
			f.says(t, "caught up with revision")
			f.interrupted(t)
			stop()
			mustEnd(t, start(t, source, destination, "--keep-revisions", "--until-caught-up", "--verify"))
			compare(t, from, to, true)
			compareHistory(t, from, to, compacted+1)
			if _, err := to.Get(patiently(t), "key-001", clientv3.WithRev(compacted-1)); !errors.Is(err, rpctypes.ErrCompacted) {
				t.Errorf("what the source has compacted is not compacted: %v", err)
			}
			_, err := to.Put(patiently(t), "foreign", "x")
			check(t, err)
			code, out := start(t, source, destination, "--keep-revisions", "--until-caught-up").ends(t)
			if code != 1 || !strings.Contains(out, "another client wrote to it") {
				t.Errorf("after a foreign write: exit code %d: %s", code, out)
			}
		})
	}
}

// TestWhatIsNotACopyIsLeftAlone begins copies into destinations that must not be touched.
func TestWhatIsNotACopyIsLeftAlone(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	from, to := connect(t, source), connect(t, destination)
	for _, key := range []string{"/a/1", "/a/2", "/b/1"} {
		_, err := from.Put(patiently(t), key, "from")
		check(t, err)
	}
	for _, key := range []string{"/a/2", "/a/3", "/b/9"} {
		_, err := to.Put(patiently(t), key, "to")
		check(t, err)
	}
	for _, refused := range []struct {
		flags []string
		code  int
		why   string
	}{
		{nil, 1, "the destination has 3 keys there and no state of a copy: give --replace"},
		{[]string{"--keep-revisions"}, 1, "--keep-revisions needs a new destination"},
		{[]string{"--finish"}, 128, "--finish needs --until-caught-up"},
		{[]string{"--keep-revisions", "--prefix=/a"}, 128, "cannot be combined with --prefix"},
		{[]string{"--max-txn-ops=1"}, 128, "--max-txn-ops must be at least 2"},
		{[]string{"--state-key="}, 128, "--state-key must not be empty"},
	} {
		code, out := start(t, source, destination, refused.flags...).ends(t)
		if code != refused.code || !strings.Contains(out, refused.why) {
			t.Errorf("%q: exit code %d: %s", refused.flags, code, out)
		}
	}
	if got := keys(t, to); got != "/a/2=to /a/3=to /b/9=to" {
		t.Errorf("after refusals the destination has %s", got)
	}
	once := []string{"--replace", "--prefix=/a/", "--until-caught-up", "--verify"}
	mustEnd(t, start(t, source, destination, once...))
	if got := keys(t, to); got != "/a/1=from /a/2=from /b/9=to" {
		t.Errorf("after a copy with a prefix the destination has %s", got)
	}
	code, out := start(t, source, destination, "--until-caught-up").ends(t)
	if code != 1 || !strings.Contains(out, "begun with another --prefix") {
		t.Errorf("with another prefix: exit code %d: %s", code, out)
	}
	_, err := to.Put(patiently(t), "/a/1", "changed")
	check(t, err)
	code, out = start(t, source, destination, once...).ends(t)
	if code != 1 || !strings.Contains(out, `key "/a/1" has another value`) || !strings.Contains(out, "1 keys differ") {
		t.Errorf("verify of a changed destination: exit code %d: %s", code, out)
	}
}

// TestATransactionThatIsTooLargeIsSplitOrRefused copies one that needs all operations that a transaction may have.
func TestATransactionThatIsTooLargeIsSplitOrRefused(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	from, to := connect(t, source), connect(t, destination)
	begin := []string{"--keep-revisions", "--until-caught-up"}
	mustEnd(t, start(t, source, destination, begin...))
	var puts []clientv3.Op
	for i := range 128 {
		puts = append(puts, clientv3.OpPut(fmt.Sprintf("key-%03d", i), "x"))
	}
	_, err := from.Txn(patiently(t)).Then(puts...).Commit()
	check(t, err)
	code, out := start(t, source, destination, begin...).ends(t)
	if code != 1 || !strings.Contains(out, "has 128 changes, more than the 127") {
		t.Errorf("exit code %d: %s", code, out)
	}
	_, err = to.Delete(patiently(t), stateKey)
	check(t, err)
	first := start(t, source, destination)
	first.says(t, "caught up")
	_, err = from.Txn(patiently(t)).Then(puts...).Commit()
	check(t, err)
	first.says(t, "they became 2 transactions")
	first.interrupted(t)
	mustEnd(t, start(t, source, destination, "--until-caught-up", "--verify", "--finish"))
	compare(t, from, to, false)
}

// arrives waits until the destination has what the source has now.
func arrives(t *testing.T, from, to *clientv3.Client) {
	t.Helper()
	number := func(client *clientv3.Client) (n int) {
		answer, err := client.Get(patiently(t), "pair/a")
		check(t, err)
		if len(answer.Kvs) > 0 {
			_, err = fmt.Sscan(string(answer.Kvs[0].Value), &n)
			check(t, err)
		}
		return n
	}
	wanted, deadline := number(from), time.Now().Add(patience)
	for number(to) < wanted {
		if time.Now().After(deadline) {
			t.Fatalf("the destination never has %d", wanted)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killLeader kills the leader of a cluster and starts it again.
func killLeader(t *testing.T, c *cluster.Cluster, client *clientv3.Client) {
	t.Helper()
	for _, m := range c.Members {
		status, err := client.Status(patiently(t), m.ClientURL)
		check(t, err)
		if status.Leader == status.Header.MemberId {
			m.Kill()
			check(t, m.Restart(patiently(t)))
			return
		}
	}
	t.Fatal("there is no leader")
}

// compactAll compacts all revisions but the newest, and returns that.
func compactAll(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	answer, err := client.Get(patiently(t), "x")
	check(t, err)
	_, err = client.Compact(patiently(t), answer.Header.Revision)
	check(t, err)
	return answer.Header.Revision
}

// preload writes keys with and without leases.
func preload(t *testing.T, client *clientv3.Client) {
	t.Helper()
	for i := range 300 {
		_, err := client.Put(patiently(t), fmt.Sprintf("key-%03d", i), strings.Repeat("v", i))
		check(t, err)
	}
	_, err := client.Grant(patiently(t), 7000)
	check(t, err)
	for i := range 3 {
		lease, err := client.Grant(patiently(t), 600)
		check(t, err)
		_, err = client.Put(patiently(t), fmt.Sprintf("leased-%d", i), "x", clientv3.WithLease(lease.ID))
		check(t, err)
	}
}

// load writes until it is stopped: puts, deletes, leases that are revoked, and transactions of two keys.
func load(t *testing.T, client *clientv3.Client) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	var failure error
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := loadOnce(t.Context(), client, i); err != nil {
				failure = err
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
		check(t, failure)
	}
}

func loadOnce(ctx context.Context, client *clientv3.Client, i int) error {
	number := fmt.Sprint(i)
	key := fmt.Sprintf("key-%03d", i%40)
	pair := client.Txn(ctx).Then(clientv3.OpPut("pair/a", number), clientv3.OpPut("pair/b", number))
	if _, err := pair.Commit(); err != nil {
		return err
	}
	var err error
	switch i % 4 {
	case 0:
		_, err = client.Delete(ctx, key)
	case 1:
		_, err = client.Txn(ctx).Then(clientv3.OpDelete("key-04", clientv3.WithPrefix()), clientv3.OpPut(key, number)).Commit()
	case 2:
		err = leaseOnce(ctx, client, number, i%8 == 2)
	default:
		_, err = client.Put(ctx, key, number)
	}
	return err
}

// leaseOnce puts a key with a lease of its own, which is revoked, or stays.
func leaseOnce(ctx context.Context, client *clientv3.Client, number string, stays bool) error {
	lease, err := client.Grant(ctx, 500)
	if err != nil {
		return err
	}
	if _, err = client.Put(ctx, "leased", number, clientv3.WithLease(lease.ID)); err != nil || stays {
		return err
	}
	_, err = client.Revoke(ctx, lease.ID)
	return err
}
