// Package ctl runs etcdctl and Stele's command line over the same lines, and compares what they print and how they end.
//
// Two fresh servers get the same lines in the same order, one through each program, so their revisions and leases
// agree. What differs by nature is normalized: ids of clusters, members and leases, terms, ports and times.
package ctl

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// program is one of the two command lines, with the server it talks to.
type program struct {
	path     string
	endpoint string
	// before are words between the program's name and those of a line.
	before []string
	// limit is how long a line may take, if that is longer than others may.
	limit time.Duration
	env   []string
	// leases are the ids of granted leases, in order: the lines name them by @1, @2 and so on.
	leases []string
}

// result is what scripts see of a line.
type result struct {
	out, errors string
	code        int
}

// etcdctl is the reference; ours is a link to Stele's binary with its name.
func etcdctl(t *testing.T) string {
	t.Helper()
	path := cluster.EtcdTool("etcdctl")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no etcdctl: %v", err)
	}
	return path
}

// named makes a link to Stele's binary with another name.
func named(t *testing.T, name string) string {
	t.Helper()
	stele, err := filepath.Abs(cluster.StelePath())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(stele, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// note remembers a line that the reference runs.
func (p *program) note(args []string) {
	if p.path == cluster.EtcdTool("etcdctl") {
		note(args)
	}
}

// run runs one line.
func (p *program) run(t *testing.T, l line) result {
	t.Helper()
	args := make([]string, len(l.args))
	for i, arg := range l.args {
		for n, id := range p.leases {
			arg = strings.ReplaceAll(arg, "@"+string(rune('1'+n)), id)
		}
		args[i] = strings.ReplaceAll(arg, "@dir", t.TempDir())
	}
	p.note(args)
	ctx, cancel := context.WithTimeout(t.Context(), max(patience, p.limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, slices.Concat(p.before, args)...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "ETCDCTL_ENDPOINTS=" + p.endpoint}, p.env...), l.env...)
	cmd.Stdin = strings.NewReader(l.input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	r := result{}
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil {
		t.Fatalf("%s %q did not end", p.path, args)
	} else if errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if m := grantedLease.FindStringSubmatch(out.String()); m != nil {
		p.leases = append(p.leases, m[1])
	}
	r.out, r.errors = p.normal(out.String()), p.normal(errs.String())
	return r
}

var (
	grantedLease = regexp.MustCompile(`^lease ([0-9a-f]{16}) granted`)
	// etcdctl's library logs as JSON; no script reads that.
	logLine = regexp.MustCompile(`(?m)^\{"level".*\n`)
	// An id that begins with zeros is printed with spaces in their place.
	padded  = regexp.MustCompile(`(?m)( |^) +[0-9a-f]{12,15}\b`)
	longHex = regexp.MustCompile(`\b[0-9a-f]{12,16}\b`)
	longID  = regexp.MustCompile(`\b[0-9]{15,20}\b`)
	port    = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	took    = regexp.MustCompile(`[0-9.]+(ms|µs|s)\b`)
	term    = regexp.MustCompile(`("raft_term":|"RaftTerm" : )[0-9]+`)
	size    = regexp.MustCompile(`[0-9.]+ [kM]B\b|\b[0-9]+%|("dbSize(InUse)?":|"DBSize(InUse)?" : )[0-9]+`)
	dir     = regexp.MustCompile(`/tmp/[^ ]*/`)
	spaces  = regexp.MustCompile(` +`)
	ruler   = regexp.MustCompile(`─+`)
	// Members are listed in the order of their ids.
	members  = regexp.MustCompile(`ETCD_INITIAL_CLUSTER=.*`)
	password = regexp.MustCompile(`(?m)^stty: .*\n`)
)

// normal replaces what differs from run to run.
func (p *program) normal(text string) string {
	text = logLine.ReplaceAllString(text, "")
	text = password.ReplaceAllString(text, "")
	for _, r := range []struct {
		pattern *regexp.Regexp
		with    string
	}{
		{members, "ETCD_INITIAL_CLUSTER"}, {port, "ADDRESS"}, {dir, "DIR/"}, {took, "TIME"}, {size, "${1}SIZE"}, {term, "${1}TERM"}, {longID, "ID"},
		{padded, "${1}ID"}, {longHex, "ID"},
	} {
		text = r.pattern.ReplaceAllString(text, r.with)
	}
	if strings.Contains(text, "─") {
		// Columns are as wide as ids and times, which have no fixed length.
		text = spaces.ReplaceAllString(ruler.ReplaceAllString(text, "─"), " ")
	}
	return text
}

// compare runs all lines through both programs.
func compare(t *testing.T, reference, tested *program, lines []line) {
	t.Helper()
	for _, l := range lines {
		asked := tested
		if l.same {
			asked = &program{path: tested.path, endpoint: reference.endpoint}
		}
		want, got := reference.run(t, l), asked.run(t, l)
		if l.loose {
			want.errors, got.errors = "", ""
		}
		if want != got {
			t.Errorf("%q %q\netcdctl: code %d\n%s%s\nstele:   code %d\n%s%s",
				l.args, l.input, want.code, want.out, want.errors, got.code, got.out, got.errors)
		}
	}
}

// cheapHashes make hashing a password take no time.
var cheapHashes = []string{"--bcrypt-cost=4"}

func TestItPrintsWhatEtcdctlPrints(t *testing.T) {
	t.Parallel()
	reference := &program{path: etcdctl(t)}
	tested := &program{path: named(t, "etcdctl")}
	for _, p := range []*program{reference, tested} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Args: cheapHashes})
		p.endpoint = strings.TrimPrefix(c.Endpoints()[0], "http://")
	}
	compare(t, reference, tested, slices.Concat(pages(t), keyLines(), serverLines(), clusterLines(), reads(), writes(), options()))
}

func TestItPrintsTheSameOfOurServer(t *testing.T) {
	t.Parallel()
	reference := &program{path: etcdctl(t)}
	tested := &program{path: named(t, "etcdctl")}
	for _, p := range []*program{reference, tested} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Args: cheapHashes})
		p.endpoint = strings.TrimPrefix(c.Endpoints()[0], "http://")
	}
	compare(t, reference, tested, slices.Concat(keyLines(), serverLines(), clusterLines(), reads()))
}

func TestTheNamesOfEtcdStartNoMember(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"etcd":  {"gateway", "start"},
		"stele": {"grpc-proxy", "start"},
	} {
		out, err := exec.Command(named(t, name), args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("is not available")) {
			t.Errorf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for _, line := range [][]string{{"--version"}, {"--data-dir", "x", "--version"}} {
		reference, err := exec.Command(cluster.EtcdPath(), line...).Output()
		if err != nil {
			t.Skipf("no etcd: %v", err)
		}
		out, err := exec.Command(named(t, "etcd"), line...).Output()
		want, got := strings.Split(string(reference), "\n"), strings.Split(string(out), "\n")
		isSame := func(i int) bool {
			// Which commit and which Go made it is its own.
			return want[i] == got[i] || i == 1 && strings.HasPrefix(got[i], "Git SHA: ") || i == 2 && strings.HasPrefix(got[i], "Go Version: ")
		}
		if err != nil || len(got) != len(want) || !isSame(0) || !isSame(1) || !isSame(2) || !isSame(3) {
			t.Errorf("etcd %q: %v\n%q instead of %q", line, err, got, want)
		}
	}
}
