package ctl

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

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
	c.Members[1].Kill()
	r := p.run(t, l("status"))
	if r.code == 0 || !strings.Contains(r.out, "2 of 3 members answer") || !strings.Contains(r.out, "m2") {
		t.Errorf("status with a member that is down: %+v", r)
	}
	if r := p.run(t, l("top --times 1 --interval 100ms")); r.code != 0 || !strings.Contains(r.out, "2 of 3 members answer") {
		t.Errorf("top with a member that is down: %+v", r)
	}
	c.Members[2].Kill()
	if r := p.run(t, l("status")); r.code == 0 || !strings.Contains(r.out, "1 of 3 members answer") {
		t.Errorf("status without a quorum: %+v", r)
	}
}
