package ctl

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// running is a command that stays until it is stopped.
type running struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines chan string
}

// patience bounds each wait for a line.
const patience = 60 * time.Second

func (p *program) start(t *testing.T, args ...string) *running {
	t.Helper()
	p.note(args)
	r := &running{cmd: exec.Command(p.path, slices.Concat(p.before, args)...), lines: make(chan string, 100)}
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ETCDCTL_ENDPOINTS=" + p.endpoint}
	var err error
	if r.input, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	})
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			r.lines <- scanner.Text()
		}
		close(r.lines)
	}()
	return r
}

// expect reads lines until one has the text.
func (r *running) expect(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-r.lines:
			if !ok {
				t.Fatalf("%v ended without %q", r.cmd.Args, text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("%v: no line with %q", r.cmd.Args, text)
		}
	}
}

// stop interrupts it and returns its exit code.
func (r *running) stop(t *testing.T) int {
	t.Helper()
	r.cmd.Process.Signal(syscall.SIGINT)
	for range r.lines {
	}
	r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// both runs a scenario with etcdctl, which says that the scenario is right, and with ours.
func both(t *testing.T, scenario func(t *testing.T, p *program)) {
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	for _, path := range []string{etcdctl(t), named(t, "etcdctl")} {
		p := &program{path: path, endpoint: strings.ReplaceAll(strings.Join(c.Endpoints(), ","), "http://", "")}
		p.run(t, l("del --prefix _"))
		scenario(t, p)
	}
}

func (p *program) do(t *testing.T, text string) string {
	t.Helper()
	r := p.run(t, l(text))
	if r.code != 0 {
		t.Fatalf("%s: %+v", text, r)
	}
	return r.out
}

func TestCommandsThatStayDoAsEtcdctls(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *program) {
		watch := p.start(t, "watch", "-i")
		io.WriteString(watch.input, "watch k --prefix\nwatch other --rev 1 -- echo seen\n")
		p.do(t, "put other x")
		watch.expect(t, "seen")
		p.do(t, "put k1 one")
		watch.expect(t, "one")
		io.WriteString(watch.input, "progress\n")
		watch.expect(t, "progress notify: ")
		p.do(t, "del k1")
		watch.expect(t, "DELETE")
		watch.input.Close()
		for range watch.lines {
		}
		watch.cmd.Wait()
		if code := watch.cmd.ProcessState.ExitCode(); code != 3 {
			t.Errorf("watch -i ends with %d at the end of its input", code)
		}

		p.do(t, "lease grant 100")
		alive := p.start(t, "lease", "keep-alive", p.leases[len(p.leases)-1])
		alive.expect(t, "keepalived with TTL(100)")
		alive.stop(t)

		first := p.start(t, "lock", "l")
		held := first.expect(t, "l/")
		second := p.start(t, "lock", "l")
		listener := p.start(t, "elect", "-l", "e")
		leader := p.start(t, "elect", "e", "proposal-1")
		leader.expect(t, "proposal-1")
		listener.expect(t, "proposal-1")
		next := p.start(t, "elect", "e", "proposal-2")
		if code := leader.stop(t); code != 0 {
			t.Errorf("elect, interrupted, ends with %d", code)
		}
		next.expect(t, "proposal-2")
		listener.expect(t, "proposal-2")
		if code := listener.stop(t); code != 0 {
			t.Errorf("elect -l, interrupted, ends with %d", code)
		}
		if code := first.stop(t); code != 0 {
			t.Errorf("lock, interrupted, ends with %d", code)
		}
		if again := second.expect(t, "l/"); again == held {
			t.Errorf("two locks have the key %s", held)
		}
		second.stop(t)
		next.stop(t)
	})
}

func TestAMirrorFollowsItsSource(t *testing.T) {
	t.Parallel()
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	var ends []result
	both(t, func(t *testing.T, p *program) {
		to := &program{path: p.path, endpoint: strings.TrimPrefix(destination.Endpoints()[0], "http://")}
		p.do(t, "put a/1 one")
		p.do(t, "put b/1 elsewhere")
		begin := to.revision(t)
		mirror := p.start(t, "make-mirror", "--prefix", "a/", "--dest-prefix", "m/", to.endpoint)
		// What the program before has written is history.
		watch := to.start(t, "watch", "m/", "--prefix", "--rev", fmt.Sprint(begin+1))
		watch.expect(t, "one")
		p.do(t, "put a/2 two")
		watch.expect(t, "two")
		p.do(t, "del a/1")
		watch.expect(t, "DELETE")
		if out := to.do(t, "get _ --prefix"); out != "m/2\ntwo\n" {
			t.Errorf("the mirror holds %q", out)
		}
		mirror.stop(t)

		// Another one begins with the changes after a revision, not with the keys; one transaction has two of them.
		revision := p.revision(t)
		txn := p.run(t, line{args: []string{"txn"}, input: "\nput a/3 three\nput a/4 four\nput a/5 five\n\n\n"})
		if txn.code != 0 {
			t.Fatalf("txn: %+v", txn)
		}
		to.do(t, "del m/ --prefix")
		from := fmt.Sprint(revision + 1)
		mirror = p.start(t, "make-mirror", "--rev", from, "--prefix", "a/", "--dest-prefix", "m/", "--max-txn-ops", "2", to.endpoint)
		watch.expect(t, "five")
		if out := to.do(t, "get _ --prefix"); out != "m/3\nthree\nm/4\nfour\nm/5\nfive\n" {
			t.Errorf("the mirror from revision %s holds %q", from, out)
		}
		mirror.stop(t)
		watch.stop(t)

		// What it should begin with is gone.
		p.do(t, "put a/6 six")
		p.do(t, fmt.Sprint("compaction ", p.revision(t)))
		end := p.run(t, l("make-mirror --rev "+from+" --prefix a/ --dest-prefix m/ "+to.endpoint))
		if end.code == 0 {
			t.Error("it mirrors changes that were compacted")
		}
		ends = append(ends, result{code: end.code, errors: end.errors})
		to.do(t, "del --prefix _")
	})
	if len(ends) == 2 && ends[0] != ends[1] {
		t.Errorf("after a compaction etcdctl ends with %+v, and stele with %+v", ends[0], ends[1])
	}
}

var revisionField = regexp.MustCompile(`"Revision" : \d+`)

// revision is the newest one of a cluster.
func (p *program) revision(t *testing.T) (revision int64) {
	t.Helper()
	if _, err := fmt.Sscanf(revisionField.FindString(p.do(t, "get x -w fields")), `"Revision" : %d`, &revision); err != nil {
		t.Fatal(err)
	}
	return revision
}

var slow = flag.Bool("slow", false, "also the commands that put for up to a minute")

// TestCheckEndsAsEtcdctls runs the checks of performance with the smallest load. What they print depends on the machine: the
// names of the figures are compared.
func TestCheckEndsAsEtcdctls(t *testing.T) {
	if !*slow {
		t.Skip("it puts for some minutes: -slow")
	}
	figures := regexp.MustCompile(`[0-9.]+(e[+-][0-9]+)?|\b(PASS|FAIL)\b`)
	// Whether a figure is good enough depends on the machine too.
	judged := regexp.MustCompile(`(?:PASS: |FAIL: )?(Throughput|Slowest request|Stddev) (?:is|too low:|took too long:|took|too high:)`)
	var ends []string
	for _, path := range []string{etcdctl(t), named(t, "etcdctl")} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
		p := &program{path: path, endpoint: strings.TrimPrefix(c.Endpoints()[0], "http://"), limit: 5 * time.Minute}
		var all strings.Builder
		for _, text := range []string{"check perf --load=s --auto-compact --auto-defrag", "check datascale --load=s --auto-compact --auto-defrag"} {
			out := judged.ReplaceAllString(p.run(t, l(text)).out, "$1")
			all.WriteString(figures.ReplaceAllString(out, "N") + "\n")
		}
		ends = append(ends, all.String())
	}
	if ends[0] != ends[1] {
		t.Errorf("etcdctl prints\n%sand stele\n%s", ends[0], ends[1])
	}
}

// TestLeadersAndAlarmsOfMembersAsEtcdctl runs the same commands through both programs, each against a cluster of three of its own:
// they change the leader and disarm alarms.
func TestLeadersAndAlarmsOfMembersAsEtcdctl(t *testing.T) {
	t.Parallel()
	all := map[string][]result{}
	var lines []string
	reference, tested := etcdctl(t), named(t, "etcdctl")
	for _, path := range []string{reference, tested} {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
		p := &program{path: path, endpoint: strings.ReplaceAll(strings.Join(c.Endpoints(), ","), "http://", "")}
		client := cluster.ClientOf(t, patience, c.Members...)
		list, err := client.MemberList(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var leader, other uint64
		for _, m := range c.Members {
			status, err := client.Status(t.Context(), m.ClientURL)
			if err != nil {
				t.Fatal(err)
			}
			if leader = status.Leader; leader != status.Header.MemberId {
				other = status.Header.MemberId
			}
		}
		urlOf := func(id uint64) string {
			for i, m := range list.Members {
				if m.ID == id {
					return strings.TrimPrefix(list.Members[i].ClientURLs[0], "http://")
				}
			}
			t.Fatalf("no member has the id %x", id)
			return ""
		}
		lines = nil
		do := func(text string, env ...string) {
			asked := l(text)
			asked.env = env
			r := p.run(t, asked)
			r.out, r.errors = p.normal(r.out), p.normal(r.errors)
			all[path] = append(all[path], r)
			lines = append(lines, p.normal(text))
			t.Logf("%s: exit code %d", text, r.code)
		}
		do(fmt.Sprintf("move-leader %x", other), "ETCDCTL_ENDPOINTS="+urlOf(other))
		do(fmt.Sprintf("move-leader %x", other), "ETCDCTL_ENDPOINTS="+urlOf(leader))
		do(fmt.Sprintf("move-leader %x", leader), "ETCDCTL_ENDPOINTS="+urlOf(other))
		for _, form := range []string{"simple", "json", "fields"} {
			raise := pb.NewMaintenanceClient(client.ActiveConnection())
			for _, kind := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
				request := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: other, Alarm: kind}
				if _, err := raise.Alarm(t.Context(), &request); err != nil {
					t.Fatal(err)
				}
			}
			do("alarm list -w " + form)
			do("put a b")
			do("endpoint health")
			do("alarm disarm -w " + form)
			do("alarm list")
		}
		do("defrag --cluster")
	}
	want, got := all[reference], all[tested]
	for i, text := range lines {
		if sorted(want[i]) != sorted(got[i]) {
			t.Errorf("%s\netcdctl: %+v\nstele:   %+v", text, want[i], got[i])
		}
	}
}

// sorted has its lines in order, as members are asked at once and listed by their ids. Go prints messages with one space
// or two between fields, by the build.
func sorted(r result) result {
	order := func(text string) string {
		lines := strings.Split(spaces.ReplaceAllString(text, " "), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	return result{out: order(r.out), errors: order(r.errors), code: r.code}
}

func TestItGoesOnWhenAMemberFails(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	p := &program{path: named(t, "etcdctl")}
	p.endpoint = strings.ReplaceAll(strings.Join(c.Endpoints(), ","), "http://", "")
	watch := p.start(t, "watch", "k", "--rev", "1")
	p.do(t, "put k 1")
	watch.expect(t, "1")
	c.Members[0].Kill()
	// The first attempt may be sent on to the leader that was killed.
	for attempt := 1; p.run(t, l("put k 2 --command-timeout 30s")).code != 0; attempt++ {
		if attempt == 5 {
			t.Fatal("no put succeeds without the member")
		}
	}
	watch.expect(t, "2")
	if out := p.do(t, "get k --command-timeout 30s"); out != "k\n2\n" {
		t.Errorf("get: %q", out)
	}
}
