package follow

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// patience bounds a wait for what must happen soon, also on a loaded machine.
const patience = 60 * time.Second

// output collects what a process prints.
type output struct {
	mutex sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.bytes.String()
}

// follower is a running `stele ctl follow`.
type follower struct {
	cmd  *exec.Cmd
	out  *output
	done chan error
}

// start starts a copy of one cluster into another.
func start(t *testing.T, source, destination *cluster.Cluster, flags ...string) *follower {
	t.Helper()
	return startFrom(t, source.Endpoints(), destination, flags...)
}

// startFrom starts a copy of the cluster behind endpoints.
func startFrom(t *testing.T, endpoints []string, destination *cluster.Cluster, flags ...string) *follower {
	t.Helper()
	args := []string{"ctl", "follow", "--interval=100ms", "--endpoints=" + strings.Join(endpoints, ",")}
	args = append(append(args, flags...), strings.Join(destination.Endpoints(), ","))
	f := &follower{cmd: exec.Command(cluster.StelePath(), args...), out: &output{}, done: make(chan error, 1)}
	f.cmd.Stdout, f.cmd.Stderr = f.out, f.out
	check(t, f.cmd.Start())
	go func() { f.done <- f.cmd.Wait() }()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("follow %q:\n%s", flags, f.out)
		}
	})
	return f
}

// says waits until the process has printed a text.
func (f *follower) says(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(f.out.String(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("follow never says %q", text)
		}
		select {
		case err := <-f.done:
			f.done <- err
			if !strings.Contains(f.out.String(), text) {
				t.Fatalf("follow ended (%v) and did not say %q", err, text)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ends waits for the end of the process, and returns its exit code and what it printed.
func (f *follower) ends(t *testing.T) (int, string) {
	t.Helper()
	select {
	case err := <-f.done:
		f.done <- err
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), f.out.String()
		}
		check(t, err)
		return 0, f.out.String()
	case <-time.After(patience):
		t.Fatal("follow does not end")
		return 0, ""
	}
}

// interrupted stops the process as a person does.
func (f *follower) interrupted(t *testing.T) {
	t.Helper()
	check(t, f.cmd.Process.Signal(syscall.SIGINT))
	if code, out := f.ends(t); code != 0 || !strings.Contains(out, "the same command goes on from there") {
		t.Fatalf("after SIGINT: exit code %d: %s", code, out)
	}
}

// mustEnd runs a copy to its end, which must be good.
func mustEnd(t *testing.T, f *follower) string {
	t.Helper()
	code, out := f.ends(t)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	return out
}

func connect(t *testing.T, c *cluster.Cluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience})
	check(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
