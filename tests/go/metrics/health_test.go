package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stele.test/cluster"
)

// paths are the health checks, with their parameters.
var paths = []string{
	"/health", "/health?serializable=true", "/health?exclude=NOSPACE", "/health/", "/livez", "/livez?verbose",
	"/livez/serializable_read", "/livez?exclude=serializable_read&verbose", "/livez/non_learner", "/readyz?verbose",
	"/readyz?exclude=linearizable_read", "/readyz?exclude=linearizable_read&exclude=x&verbose",
	"/readyz?verbose;x&exclude=linearizable_read", "/readyz?allowlist=non_learner&verbose", "/readyz/data_corruption?verbose",
	"/readyz/serializable_read", "/readyz/linearizable_read", "/readyz/non_learner", "/readyz/nonsense",
}

// quick makes members give up soon: a request waits for five seconds and two election timeouts.
var quick = []string{"--heartbeat-interval=50", "--election-timeout=500"}

// sameSeries are families whose series etcd shows from the first scrape on.
var sameSeries = []string{"grpc_server_started_total", "etcd_server_feature_enabled"}

// shownLater is in the names of the services Lock and Election, whose methods etcd shows after the first call only.
const shownLater = `="v3`

// ownService is in the names of services that etcd does not have.
const ownService = `="stelepb`

// TestHealthOfAMinorityIsEtcds asks a leader of three that has lost the two others, here and in etcd, and reads what is
// counted then.
func TestHealthOfAMinorityIsEtcds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	etcd := newMinority(ctx, t, cluster.EtcdPath())
	own := newMinority(ctx, t, *bin)
	for _, m := range []*minority{etcd, own} {
		m.before = scrapeAll(ctx, m.rig.Cluster)
		if err := quorumLost.do(ctx, m.rig); err != nil {
			t.Fatal(err)
		}
	}
	answers := make(chan map[string]string, 2)
	for _, m := range []*minority{etcd, own} {
		if err := m.awaitNoLeader(ctx); err != nil {
			t.Fatal(err)
		}
		go func() { answers <- ask(ctx, m.survivor) }()
	}
	awaitChanges(ctx, t, own.rig.Cluster, own.before, quorumLost)
	one, other := <-answers, <-answers
	for _, path := range paths {
		if one[path] != other[path] {
			t.Errorf("%s: one answers %q, the other %q", path, one[path], other[path])
		}
	}
	for _, family := range sameSeries {
		theirs := etcd.before[etcd.survivor.Name].series[family]
		ours := slices.DeleteFunc(own.before[own.survivor.Name].series[family], func(name string) bool {
			return strings.Contains(name, shownLater) || strings.Contains(name, ownService)
		})
		if !slices.Equal(theirs, ours) {
			t.Errorf("%s: etcd has\n%s\nStele has\n%s", family, strings.Join(theirs, "\n"), strings.Join(ours, "\n"))
		}
	}
}

// minority is a cluster of three whose leader will be left alone.
type minority struct {
	rig      *rig
	survivor *cluster.Member
	before   map[string]scrape
}

func newMinority(ctx context.Context, t *testing.T, binary string) *minority {
	t.Helper()
	r := newRig(t, cluster.ForTest(t, cluster.Config{Binary: binary, Size: 3, Args: quick}))
	leads, err := r.leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &minority{rig: r, survivor: r.Members[leads]}
}

func (m *minority) awaitNoLeader(ctx context.Context) error {
	for {
		s, err := scrapeOf(ctx, m.survivor)
		if err == nil && s.values["etcd_server_has_leader"] == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// ask asks for all paths at once; some take seconds. In etcd the order of checks in a report varies.
func ask(ctx context.Context, m *cluster.Member) map[string]string {
	type answer struct{ path, text string }
	answers := make(chan answer)
	for _, path := range paths {
		go func() {
			status, body, err := get(ctx, m, path)
			lines := strings.SplitAfter(body, "\n")
			slices.Sort(lines)
			answers <- answer{path, fmt.Sprint(status, strings.Join(lines, ""), err)}
		}()
	}
	all := map[string]string{}
	for range paths {
		a := <-answers
		all[a.path] = a.text
	}
	return all
}
