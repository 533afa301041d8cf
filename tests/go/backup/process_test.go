package backup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/manual"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

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

// copying is a running `stele ctl backup`.
type copying struct {
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

// startBackup begins to copy a cluster into an archive.
func startBackup(t *testing.T, c *cluster.Cluster, archive string, flags ...string) *copying {
	t.Helper()
	args := []string{"ctl", "backup", "--interval=100ms", "--dial-timeout=60s", "--command-timeout=60s", "--endpoints=" + strings.Join(c.Endpoints(), ",")}
	b := &copying{cmd: exec.Command(cluster.StelePath(), append(append(args, flags...), archive)...), out: &output{}, done: make(chan struct{})}
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.out
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, b.cmd.Start())
	go func() {
		_ = b.cmd.Wait()
		close(b.done)
	}()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.done
		if t.Failed() {
			t.Logf("backup %q:\n%s", flags, b.out)
		}
	})
	return b
}

// ends waits for the end of the process, after a signal unless that is 0, and returns its exit code.
func (b *copying) ends(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if signal != 0 {
		check(t, b.cmd.Process.Signal(signal))
	}
	select {
	case <-b.done:
	case <-time.After(patience):
		t.Fatal("the backup does not end")
	}
	return b.cmd.ProcessState.ExitCode()
}

// says waits until the process has printed a text.
func (b *copying) says(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(b.out.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the backup never says %q", text)
		}
	}
}

// result is what scripts see of a line.
type result struct {
	out, errors string
	code        int
}

// stele runs a command of the binary.
func stele(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(patiently(t), cluster.StelePath(), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	r := result{}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		r.code = exit.ExitCode()
	} else {
		check(t, err)
	}
	r.out, r.errors = out.String(), errs.String()
	return r
}

// page is docs/operating/backup.md, all of whose commands the tests of this package run.
var page = sync.OnceValues(func() (*manual.Page, error) { return manual.Open("backup.md") })

func TestMain(m *testing.M) {
	p, err := page()
	if err != nil {
		panic(err)
	}
	os.Exit(p.RunAll(m))
}

// command is the block of the page that has a line which begins so, with these variables.
func command(t *testing.T, dir, begin string, variables ...string) *exec.Cmd {
	t.Helper()
	p, err := page()
	check(t, err)
	programs := manual.Tools(t, map[string]string{"stele": cluster.StelePath()})
	cmd, err := p.Command(patiently(t), dir, programs, begin, variables...)
	check(t, err)
	return cmd
}

// follow runs a block to its end, and returns what it prints.
func follow(t *testing.T, dir, begin string, variables ...string) string {
	t.Helper()
	cmd := command(t, dir, begin, variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, cmd, out)
	}
	return string(out)
}

// during runs a block until something holds, and stops it as a person does.
func during(t *testing.T, cmd *exec.Cmd, what string, holds func() bool) {
	t.Helper()
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	// A signal goes to the commands and not to their shell alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s\n%s", cmd, out)
		}
	})
	until(t, what, holds)
	check(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	// The shell ends by the signal.
	_ = cmd.Wait()
}
