// Package bench runs etcd's load generator and Stele's, called by its name, over the same lines and one cluster, and
// compares what they print besides the numbers, and how they end.
package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// patience bounds each run.
const patience = 60 * time.Second

// generators are etcd's and a link to Stele's binary with the same name.
func generators(t *testing.T) (reference, tested string) {
	t.Helper()
	reference = cluster.EtcdTool("benchmark")
	if _, err := os.Stat(reference); err != nil {
		t.Skipf("no benchmark: %v", err)
	}
	stele, err := filepath.Abs(cluster.StelePath())
	if err != nil {
		t.Fatal(err)
	}
	tested = filepath.Join(t.TempDir(), "benchmark")
	if err := os.Symlink(stele, tested); err != nil {
		t.Fatal(err)
	}
	return reference, tested
}

// result is what scripts see of a run: the layout of its report, and its exit code.
type result struct {
	layout string
	code   int
}

var (
	number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?`)
	bar    = regexp.MustCompile(`∎+`)
)

// run runs a line against the endpoints.
func run(t *testing.T, path, endpoints, line string) (result, string) {
	t.Helper()
	out, errs, code := output(t, path, append([]string{"--endpoints=" + endpoints}, strings.Fields(line)...))
	return result{bar.ReplaceAllString(number.ReplaceAllString(out, "N"), ""), code}, errs
}

// output runs a line, and returns what it prints and its exit code.
func output(t *testing.T, path string, args []string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var outBytes, errBytes bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = &outBytes, &errBytes
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil {
		t.Fatalf("%s %s did not end", path, args)
	} else if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return outBytes.String(), errBytes.String(), code
}

func compare(t *testing.T, endpoints string, lines []string) {
	t.Helper()
	reference, tested := generators(t)
	for _, line := range lines {
		want, _ := run(t, reference, endpoints, line)
		got, errs := run(t, tested, endpoints, line)
		if want != got {
			t.Errorf("%s\nbenchmark: %+v\nstele:     %+v\n%s", line, want, got, errs)
		}
	}
}

func addresses(c *cluster.Cluster) string {
	return strings.NewReplacer("http://", "", "https://", "").Replace(strings.Join(c.Endpoints(), ","))
}

// TestTheReportsAreAlike runs every kind of load of the release that is published; the number of requests of watch-get
// depends on the time that they take. A thousand requests have all percentiles.
func TestTheReportsAreAlike(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	compare(t, addresses(c), []string{
		"put --total=1000 --clients=20 --conns=2 --val-size=10 --key-size=16 --sequential-keys --key-space-size=100",
		"put --total=1000 --clients=20 --target-leader",
		"put --total=1000 --clients=20 --rate=5000 --compact-interval=100ms --compact-index-delta=10",
		"put --total=1000 --clients=20 --check-hashkv --dial-timeout=5s --auto-sync-interval=1s",
		"put --total=1000 --clients=20 --precise",
		"put --total=50 --clients=2",
		"range foo --total=1000 --clients=20",
		"range foo zoo --total=1000 --clients=20 --consistency=s",
		"txn-put --total=1000 --clients=20 --txn-ops=2 --key-size=8 --val-size=8 --key-space-size=10",
		"txn-mixed foo --total=1000 --clients=20 --rw-ratio=1 --limit=10 --consistency=l",
		"stm --total=1000 --clients=20 --keys=10 --keys-per-txn=2 --txn-wr-percent=50 --isolation=r",
		"lease-keepalive --total=1000 --clients=20",
		"watch-latency --put-total=100 --put-rate=1000 --streams=2 --watch-per-stream=3 --prevkv",
	})
}

// TestUsersAndLeadersAreKnown makes load as a user, and against the leader alone.
func TestUsersAndLeadersAreKnown(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := cluster.ClientOf(t, patience, c.Members...)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, addresses(c), []string{"put --total=1000 --clients=5 --user=root:secret"})
	_, tested := generators(t)
	for _, line := range []string{"put --total=10 --user=root:wrong", "put --total=10"} {
		if r, errs := run(t, tested, addresses(c), line); r.code == 0 && !strings.Contains(r.layout, "Error distribution") {
			t.Errorf("%s: %+v\n%s", line, r, errs)
		}
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience, Username: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	found, err := root.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || found.Count == 0 {
		t.Errorf("no key was put: %v", err)
	}
}
