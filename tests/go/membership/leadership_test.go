package membership

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// leader waits until a member leads, and returns it.
func (f *fleet) leader() *cluster.Member {
	f.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		status, err := f.client.Status(f.t.Context(), f.running()[0].ClientURL)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, listed := range f.listed() {
			for _, m := range f.running() {
				if m.PeerURL == listed.peerURL && listed.id == status.Leader {
					return m
				}
			}
		}
	}
	f.t.Fatal("no member leads")
	return nil
}

var ends = flag.Bool("ends", false, "also how long a leader with data and load takes to end")

// maxEnd is how long a leader takes at most to end cleanly. Other processes may hold it up, so one of some
// attempts counts.
const (
	maxEnd  = 1500 * time.Millisecond
	maxEnds = 10
)

func TestALeaderEndsSoonInClustersOfThreeAndOfFive(t *testing.T) {
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			// With the usual timeouts: an election without a transfer takes longer than that.
			f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{Binary: *bin, Size: size})}
			f.client = f.connect(f.cluster.Members...)
			var took time.Duration
			for range maxEnds {
				leader := f.leader()
				began := time.Now()
				err := leader.Terminate()
				took = time.Since(began)
				if err != nil {
					t.Fatal(err)
				}
				if took <= maxEnd {
					return
				}
				if err := leader.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			t.Errorf("it took %v", took)
		})
	}
}

// With 200 MB since the last checkpoint, watches and puts under way. The median is reported, for a machine that does
// nothing else.
func TestALeaderWithDataEndsSoon(t *testing.T) {
	if !*ends {
		t.Skip("a long test: -ends")
	}
	f := &fleet{t: t, cluster: cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3})}
	f.client = f.connect(f.cluster.Members...)
	const watches, values, valueBytes = 100, 3_200, 64 << 10
	for number := range watches {
		f.client.Watch(t.Context(), fmt.Sprintf("load/0/%d", number))
	}
	l := startLoad(f)
	var took []time.Duration
	for range maxEnds {
		for number := range values {
			key, value := fmt.Sprint("data/", number), strings.Repeat("d", valueBytes)
			if err := cluster.PutUntilAnswered(t.Context(), f.client, key, value); err != nil {
				t.Fatal(err)
			}
		}
		leader := f.leader()
		began := time.Now()
		if err := leader.Terminate(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
		if err := leader.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.verify(f, maxEnds)
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("a leader ended in %v (median), %v at most", median, took[len(took)-1])
	if median > maxEnd {
		t.Errorf("longer than %v", maxEnd)
	}
}

func TestALearnerIsPromotedAtThePeerURLOfAnyMember(t *testing.T) {
	t.Parallel()
	f := begin(t, 2, *bin)
	learner := f.stray()
	var id uint64
	f.retry("add "+learner.Name, func(ctx context.Context) error {
		added, err := f.client.MemberAddAsLearner(ctx, []string{learner.PeerURL})
		if err == nil {
			id = added.Member.ID
		}
		return err
	})
	learner.JoinExisting(f.peerURLs(learner))
	if err := learner.Start(); err != nil {
		t.Fatal(err)
	}
	leader := f.leader()
	promote := func(m *cluster.Member) (int, string) {
		url := fmt.Sprintf("%s/members/promote/%d", m.PeerURL, id)
		response, err := http.Post(url, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	follower := f.cluster.Members[0]
	if follower == leader {
		follower = f.cluster.Members[1]
	}
	deadline := time.Now().Add(patience)
	for {
		status, body := promote(follower)
		if status == http.StatusOK {
			if !strings.Contains(body, fmt.Sprint(id)) || strings.Contains(body, "isLearner") {
				t.Errorf("the members that are answered: %s", body)
			}
			break
		}
		if status != http.StatusPreconditionFailed || time.Now().After(deadline) {
			t.Fatalf("%d: %s", status, body)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, m := range []*cluster.Member{leader, follower} {
		status, body := promote(m)
		if status != http.StatusPreconditionFailed || !strings.Contains(body, "can only promote a learner member") {
			t.Errorf("once more at %s: %d, %s", m.Name, status, body)
		}
	}
}
