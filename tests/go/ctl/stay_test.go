package ctl

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

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
	r := &running{cmd: exec.Command(p.path, args...), lines: make(chan string, 100)}
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
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	both(t, func(t *testing.T, p *program) {
		to := &program{path: p.path, endpoint: strings.TrimPrefix(destination.Endpoints()[0], "http://")}
		p.do(t, "put a/1 one")
		p.do(t, "put b/1 elsewhere")
		mirror := p.start(t, "make-mirror", "--prefix", "a/", "--dest-prefix", "m/", to.endpoint)
		watch := to.start(t, "watch", "m/", "--prefix", "--rev", "1")
		watch.expect(t, "one")
		p.do(t, "put a/2 two")
		watch.expect(t, "two")
		p.do(t, "del a/1")
		watch.expect(t, "DELETE")
		if out := to.do(t, "get _ --prefix"); out != "m/2\ntwo\n" {
			t.Errorf("the mirror holds %q", out)
		}
		mirror.stop(t)
		watch.stop(t)
		to.do(t, "del --prefix _")
	})
}

func TestItGoesOnWhenAMemberFails(t *testing.T) {
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
