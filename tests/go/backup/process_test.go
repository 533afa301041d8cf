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
	args := []string{"ctl", "backup", "--interval=100ms", "--endpoints=" + strings.Join(c.Endpoints(), ",")}
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

// follow runs the block of docs/operating/backup.md that has a line which begins so, with these variables.
func follow(t *testing.T, dir, begin string, variables ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operating/backup.md")
	check(t, err)
	for i, block := range strings.Split(string(page), "```") {
		if i%2 == 0 || !strings.Contains(block, "\n"+begin) {
			continue
		}
		block = strings.TrimPrefix(block, "sh")
		cmd := exec.CommandContext(patiently(t), "bash", "-e", "-c", block)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "PATH="+steleInPath(t)+":"+os.Getenv("PATH")), variables...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, block, out)
		}
		return string(out)
	}
	t.Fatalf("the manual has no %q", begin)
	return ""
}

// steleInPath is a directory with the binary, for commands as people type them.
func steleInPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Symlink(cluster.StelePath(), dir+"/stele"))
	return dir
}
