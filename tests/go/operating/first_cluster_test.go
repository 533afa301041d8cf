package operating

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/manual"
)

// TestTheFirstClusterIsStartedByTheManual pastes the commands of first-cluster.md for one machine into a shell, with other
// ports and without building the binary.
func TestTheFirstClusterIsStartedByTheManual(t *testing.T) {
	t.Parallel()
	page, err := manual.Open("first-cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, begin := range []string{"cargo build --release", "stele ctl --endpoints 127.0.0.1:2379 put"} {
		block, err := page.Block(begin)
		if err != nil {
			t.Fatal(err)
		}
		script.WriteString(block)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "target"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(manual.Tools(t, map[string]string{"stele": *bin}), filepath.Join(dir, "target", "release")); err != nil {
		t.Fatal(err)
	}
	// What people do once, for the binary.
	text := strings.Replace(script.String(), "cargo build --release\n", "", 1)
	text += "kill $(cat a.pid b.pid c.pid)\nwait\n"
	ports := []string{"2379", "2380", "22379", "22380", "32379", "32380"}
	free, err := cluster.FreePorts(len(ports))
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range ports {
		text = regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, fmt.Sprint(free[i]))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-e", "-c", text)
	shell.Dir = dir
	// A busy machine takes long to start three members.
	shell.Env = append(os.Environ(), "TMPDIR="+dir, "ETCDCTL_COMMAND_TIMEOUT=1m", "ETCDCTL_DIAL_TIMEOUT=1m")
	var out strings.Builder
	shell.Stdout, shell.Stderr = &out, &out
	// If it fails the members outlive the shell, and hold its output open, but they do not outlive its group.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.WaitDelay = time.Second
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	err = shell.Wait()
	said := out.String()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, said)
	}
	if !regexp.MustCompile(`(?s)OK\ngreeting\nhello\nOK\n.*again\n`).MatchString(said) {
		t.Errorf("the commands print %s", said)
	}
	for _, client := range []int{free[0], free[2], free[4]} {
		if !strings.Contains(said, fmt.Sprintf("127.0.0.1:%d │", client)) {
			t.Errorf("the status has no member at port %d: %s", client, said)
		}
	}
}
