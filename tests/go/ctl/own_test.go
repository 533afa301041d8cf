package ctl

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

func TestOurOwnCommandsExistUnderOurOwnName(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	own := func(args ...string) (string, error) {
		line := append([]string{"ctl", "--endpoints", c.Endpoints()[0]}, args...)
		out, err := exec.Command(named(t, "stele"), line...).CombinedOutput()
		return string(out), err
	}
	if out, err := own("put", "a/1", "one"); err != nil {
		t.Fatalf("put: %v\n%s", err, out)
	}
	for _, l := range []struct {
		args []string
		want string
		fail bool
	}{
		{[]string{"status"}, "The cluster is healthy: 1 of 1 members answer, m1 leads.", false},
		{[]string{"top", "--times", "1", "--interval", "100ms"}, "1 of 1 members answer, leader: m1", false},
		{[]string{"put", "a/1", "two"}, "OK", false},
		{[]string{"diff", "--rev", "2", "a/"}, "~ a/1 = two", true},
		{[]string{"diff", "--rev", "2", "--other-rev", "3", "b/"}, "0 keys are equal, 0 differ", false},
		{[]string{"diff", "--other", c.Endpoints()[0]}, "1 keys are equal, 0 differ", false},
	} {
		out, err := own(l.args...)
		if (err != nil) != l.fail || !strings.Contains(out, l.want) {
			t.Errorf("%v: %v\n%s", l.args, err, out)
		}
	}
	out, err := exec.Command(named(t, "etcdctl"), "status").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(`unknown command "status" for "etcdctl"`)) {
		t.Errorf("etcdctl status: %v\n%s", err, out)
	}
}

// own is `stele ctl` with its cluster.
func own(t *testing.T, c *cluster.Cluster) *program {
	t.Helper()
	p := &program{path: named(t, "stele"), endpoint: strings.ReplaceAll(strings.Join(c.Endpoints(), ","), "http://", "")}
	p.before = []string{"ctl"}
	return p
}

// TestGetWatchLosesNothing reads keys and then their changes, while another client puts without a pause: each value comes
// once, in order.
func TestGetWatchLosesNothing(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	p, client := own(t, c), cluster.ClientOf(t, patience, c.Members...)
	end := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			if _, err := client.Put(t.Context(), "w/key", fmt.Sprint("value-", n)); err != nil {
				done <- err
				return
			}
			select {
			case <-end:
				done <- nil
				return
			default:
			}
		}
	}()
	for range 3 {
		watch := p.start(t, "get", "w/", "--prefix", "--watch")
		last := 0
		for seen := 0; seen < 200; {
			text := watch.expect(t, "")
			var value int
			if _, err := fmt.Sscanf(text, "value-%d", &value); err != nil {
				continue
			}
			if seen > 0 && value != last+1 {
				t.Fatalf("value %d comes after value %d", value, last)
			}
			last = value
			seen++
		}
		watch.stop(t)
	}
	close(end)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestStatusAndTopShowAMemberThatIsDown kills one of three members.
func TestStatusAndTopShowAMemberThatIsDown(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	p := own(t, c)
	if r := p.run(t, l("status")); r.code != 0 || !strings.Contains(r.out, "The cluster is healthy: 3 of 3 members answer") {
		t.Errorf("status of a healthy cluster: %+v", r)
	}
	showsWatchersAndTimes(t, c, p)
	c.Members[1].Kill()
	r := p.run(t, l("status"))
	if r.code != 1 || !strings.Contains(r.out, "2 of 3 members answer") || !strings.Contains(r.out, "problem: m2 does not answer at ") ||
		!strings.Contains(r.out, "The cluster goes on: 2 of 3 voters answer") || !strings.Contains(r.out, "do: start it, or look at its log") {
		t.Errorf("status with a member that is down: %+v", r)
	}
	if r := p.run(t, l("top --times 1 --interval 100ms")); r.code != 0 || !strings.Contains(r.out, "2 of 3 members answer") {
		t.Errorf("top with a member that is down: %+v", r)
	}
	c.Members[2].Kill()
	if r := p.run(t, l("status")); r.code != 1 || !strings.Contains(r.out, "1 of 3 members answer") ||
		!strings.Contains(r.out, "The cluster does not accept writes: 1 of 3 voters") || strings.Count(r.out, "do: start it") != 2 {
		t.Errorf("status without a quorum: %+v", r)
	}
}

// watchers is how many watch the first member while `top` is asked.
const watchers = 7

// showsWatchersAndTimes watches a member and puts to it until `top` has seen both in one interval.
func showsWatchersAndTimes(t *testing.T, c *cluster.Cluster, p *program) {
	t.Helper()
	client := cluster.ClientOf(t, patience, c.Members[0])
	ctx, stop := context.WithCancel(t.Context())
	for range watchers {
		watch := client.Watch(ctx, "top", clientv3.WithCreatedNotify())
		if created, ok := <-watch; !ok || created.Err() != nil {
			t.Fatalf("no watcher: %v", created.Err())
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			// It fails when it is canceled at the end.
			_, _ = client.Put(ctx, "other", "value")
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	// Columns: member, role, requests a second, p50, p99, p99 of syncs, lag, watchers.
	isShown := func(row []string) bool {
		return len(row) > 7 && row[2] != "0" && row[2] != "-" && row[3] != "-" && row[4] != "-" && row[5] != "-" && row[7] == fmt.Sprint(watchers)
	}
	for deadline := time.Now().Add(patience); ; {
		r := p.run(t, l("top --times 1 --interval 200ms"))
		for line := range strings.Lines(r.out) {
			if row := strings.Fields(line); len(row) > 0 && row[0] == c.Members[0].Name && isShown(row) {
				return
			}
		}
		if r.code != 0 || time.Now().After(deadline) {
			t.Fatalf("top beside %d watchers and puts: %+v", watchers, r)
		}
	}
}

// TestDiffOfTwoClustersNamesTheKeysThatDiffer compares two lone members before and after they differ in three keys.
func TestDiffOfTwoClustersNamesTheKeysThatDiffer(t *testing.T) {
	t.Parallel()
	first := own(t, cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()}))
	second := own(t, cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()}))
	for _, p := range []*program{first, second} {
		p.do(t, "put d/changed one")
		p.do(t, "put d/same one")
	}
	diff := l("diff d/ --other " + second.endpoint)
	if r := first.run(t, diff); r.code != 0 || r.out != "" || !strings.HasPrefix(r.errors, "2 keys are equal, 0 differ, 0 are only in the first, 0 only in the second") {
		t.Errorf("equal clusters: %+v", r)
	}
	first.do(t, "put d/removed one")
	second.do(t, "put d/added one")
	second.do(t, "put d/changed two")
	second.do(t, "put e/elsewhere one")
	want := "+ d/added = one\n~ d/changed = two\n- d/removed = one\n"
	if r := first.run(t, diff); r.code != 1 || r.out != want || !strings.HasPrefix(r.errors, "1 keys are equal, 1 differ, 1 are only in the first, 1 only in the second") {
		t.Errorf("clusters that differ: %+v", r)
	}
	// The other way round, without values.
	want = "- d/added\n~ d/changed\n+ d/removed\n"
	if r := second.run(t, l("diff d/ --keys-only --other "+first.endpoint)); r.code != 1 || r.out != want {
		t.Errorf("the other way round: %+v", r)
	}
}
