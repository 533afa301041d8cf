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

	"stele.test/cluster"
)

// program is one of the two command lines, with the server it talks to.
type program struct {
	path     string
	endpoint string
	env      []string
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...)
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

func TestItPrintsWhatEtcdctlPrints(t *testing.T) {
	reference := &program{path: etcdctl(t)}
	tested := &program{path: named(t, "etcdctl")}
	for _, p := range []*program{reference, tested} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath()})
		p.endpoint = strings.TrimPrefix(c.Endpoints()[0], "http://")
	}
	compare(t, reference, tested, slices.Concat(pages(), keyLines(), serverLines(), clusterLines()))
}

func TestItPrintsTheSameOfOurServer(t *testing.T) {
	reference := &program{path: etcdctl(t)}
	tested := &program{path: named(t, "etcdctl")}
	for _, p := range []*program{reference, tested} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
		p.endpoint = strings.TrimPrefix(c.Endpoints()[0], "http://")
	}
	compare(t, reference, tested, slices.Concat(keyLines(), serverLines(), clusterLines()))
}

func TestTheNamesOfEtcdStartNoMember(t *testing.T) {
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
	out, err := exec.Command(named(t, "etcd"), "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "etcd Version: 3.") {
		t.Errorf("etcd --version: %v\n%s", err, out)
	}
}

func TestOurOwnCommandsExistUnderOurOwnName(t *testing.T) {
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
