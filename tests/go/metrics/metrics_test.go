package metrics

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

const (
	// patience bounds every wait for something that must happen.
	patience     = 60 * time.Second
	pollInterval = 50 * time.Millisecond
)

// pause waits before something is asked again.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollInterval):
		return nil
	}
}

func clientConfig(m *cluster.Member) clientv3.Config {
	return clientv3.Config{Endpoints: []string{m.ClientURL}, DialTimeout: patience, Logger: zap.NewNop()}
}

// repository is the root of the sources.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// contract are the families that etcd serves.
func contract(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(), "crates", "server", "tests", "contract", "metrics.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var families []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			family, _, _ := strings.Cut(line, "\t")
			families = append(families, family)
		}
	}
	return families
}

// constants are the families that docs/compat.md lists as constant.
func constants(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(), "docs", "compat.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### Constant\n")
	section, _, _ = strings.Cut(section, "\n## ")
	families := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		for at, name := range strings.Split(cells[0], "`") {
			if at%2 == 1 {
				families[name] = true
			}
		}
	}
	return families
}

// TestEachFamilyHasAnEvent fails for a family that nothing here changes and that is not listed as constant.
func TestEachFamilyHasAnEvent(t *testing.T) {
	covered := constants(t)
	for _, step := range append(slices.Clone(steps), quorumLost) {
		for _, family := range strings.Fields(step.families) {
			covered[family] = true
		}
	}
	for family := range exact(0) {
		covered[family] = true
	}
	for _, family := range strings.Fields(known) {
		covered[family] = true
	}
	for family := range elsewhere {
		covered[family] = true
	}
	for _, family := range contract(t) {
		if !covered[family] {
			t.Errorf("%s: no event changes it, and docs/compat.md does not list it as constant", family)
		}
	}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	s, err := scrapeOf(t.Context(), c.Members[0])
	if err != nil {
		t.Fatal(err)
	}
	for family := range s.types {
		if strings.HasPrefix(family, "stele_") && !covered[family] {
			expectUse(t, family)
		}
	}
}

// expectUse fails unless the test that shows an event of this family reads it.
func expectUse(t *testing.T, family string) {
	t.Helper()
	path, isKnown := ownElsewhere[family]
	if !isKnown {
		t.Errorf("%s: no test causes an event that changes it", family)
		return
	}
	text, err := os.ReadFile(filepath.Join(repository(), path))
	if err != nil || !strings.Contains(string(text), family) {
		t.Errorf("%s does not read %s: %v", path, family, err)
	}
}

// TestEachEventIsCounted makes the events, and waits until each family of each event has changed on some member.
func TestEachEventIsCounted(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{
		"--snapshot-count=10", "--snapshot-catchup-entries=10", "--warning-apply-duration=10us",
		"--feature-gates=CompactHashCheck=true",
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := newRig(t, c)
	checkKnown(ctx, t, r)
	for _, step := range steps {
		before := scrapeAll(ctx, c)
		if err := step.do(ctx, r); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		awaitChanges(ctx, t, c, before, step)
	}
}

// newRig opens a client of each member, until the test ends.
func newRig(t *testing.T, c *cluster.Cluster) *rig {
	t.Helper()
	r := &rig{Cluster: c}
	t.Cleanup(func() { cluster.CloseAll(r.clients) })
	for _, m := range c.Members {
		client, err := clientv3.New(clientConfig(m))
		if err != nil {
			t.Fatal(err)
		}
		r.clients = append(r.clients, client)
	}
	return r
}

// checkKnown compares what is known beforehand.
func checkKnown(ctx context.Context, t *testing.T, r *rig) {
	id, err := r.memberID(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := scrapeOf(ctx, r.Members[0])
	if err != nil {
		t.Fatal(err)
	}
	for family, series := range exact(id) {
		if s.values[series] != 1 {
			t.Errorf("%s: %s is not 1: %s", family, series, s.state(family))
		}
	}
	for _, family := range strings.Fields(known) {
		if value := s.values[family]; value <= 0 && value != -1 {
			t.Errorf("%s is %v", family, value)
		}
	}
}

// scrapeAll scrapes the members that run, by name.
func scrapeAll(ctx context.Context, c *cluster.Cluster) map[string]scrape {
	all := map[string]scrape{}
	for _, m := range c.Members {
		if m.Running() {
			if s, err := scrapeOf(ctx, m); err == nil {
				all[m.Name] = s
			}
		}
	}
	return all
}

// awaitChanges waits until each family has changed since before on some member. A member that did not run before has
// counted nothing until then.
func awaitChanges(ctx context.Context, t *testing.T, c *cluster.Cluster, before map[string]scrape, step step) {
	t.Helper()
	missing := map[string]string{}
	for _, family := range strings.Fields(step.families) {
		missing[family] = ""
	}
	for {
		for name, now := range scrapeAll(ctx, c) {
			for family := range missing {
				if now.hasChanged(before, name, family) {
					delete(missing, family)
					continue
				}
				missing[family] += fmt.Sprintf("%s: %s", name, now.state(family))
			}
		}
		if len(missing) == 0 {
			return
		}
		if pause(ctx) != nil {
			for family, seen := range missing {
				t.Errorf("%s: %s has not changed\n%.500s", step.name, family, seen)
			}
			t.FailNow()
		}
		for family := range missing {
			missing[family] = ""
		}
	}
}
