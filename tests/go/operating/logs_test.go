package operating

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// patience bounds every wait for something that must happen.
const patience = 60 * time.Second

// until asks again and again, until the answer is yes.
func until(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// fetch gets a path; the status is 0 if nothing was answered.
func fetch(url string) (int, string) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// TestNormalOperationLogsNoErrors puts keys while the leader moves, a member restarts and one joins as a learner and is
// removed. The cluster looks for the errors when it ends, as it does in every test.
func TestNormalOperationLogsNoErrors(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3})
	client := cluster.ClientOf(t, patience, c.Members...)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				// A change of the leader may refuse it.
				_, _ = client.Put(ctx, fmt.Sprint("k", n%100), "v")
			}
		}
	}()
	moveLeader(ctx, t, c)
	if err := c.Members[0].Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := c.Members[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	learner, err := c.Layout(*bin)
	if err != nil {
		t.Fatal(err)
	}
	var added *clientv3.MemberAddResponse
	until(t, "a learner", func() bool {
		added, err = client.MemberAddAsLearner(ctx, []string{learner.PeerURL})
		return err == nil
	})
	urls := map[string]string{}
	for _, m := range c.Members {
		urls[m.Name] = m.PeerURL
	}
	learner.JoinExisting(urls)
	if err := learner.Start(); err != nil {
		t.Fatal(err)
	}
	// Readiness checks that fail are no errors either.
	until(t, "a learner that serves", func() bool {
		_, body := fetch(learner.ClientURL + "/readyz?verbose")
		return strings.Contains(body, "[-]non_learner failed") && strings.Contains(body, "[+]linearizable_read ok")
	})
	if status, _ := fetch(learner.ClientURL + "/readyz/non_learner"); status != 503 {
		t.Errorf("/readyz/non_learner of a learner: %d", status)
	}
	if _, err := client.MemberRemove(ctx, added.Member.ID); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-ended
}

func moveLeader(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	t.Helper()
	until(t, "another leader", func() bool {
		for at, m := range c.Members {
			own := cluster.ClientOf(t, patience, m)
			status, err := own.Status(ctx, m.ClientURL)
			if err != nil || status.Leader != status.Header.MemberId {
				continue
			}
			next := cluster.ClientOf(t, patience, c.Members[(at+1)%3])
			other, err := next.Status(ctx, c.Members[(at+1)%3].ClientURL)
			if err != nil {
				return false
			}
			_, err = own.MoveLeader(ctx, other.Header.MemberId)
			return err == nil
		}
		return false
	})
}

// TestAStalledStandardErrorStopsNoMember gives a member a standard error that no one reads. It answers puts, and counts
// the lines that it drops.
func TestAStalledStandardErrorStopsNoMember(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pipe := filepath.Join(t.TempDir(), "stderr")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Both ends are open, so that neither side waits for the other.
	ends, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	host := cluster.Host{Address: "127.0.0.1", Prefix: []string{"sh", "-c", `exec "$@" 2>` + pipe, "sh"}}
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: []cluster.Host{host}, Args: []string{
		// Each request is logged.
		"--warning-unary-request-duration=1ns", "--log-level=debug",
	}})
	client := cluster.ClientOf(t, patience, c.Members...)
	key := strings.Repeat("k", 1000)
	until(t, "lines that are dropped", func() bool {
		for n := range 200 {
			if _, err := client.Put(ctx, fmt.Sprint(key, n), "value"); err != nil {
				t.Fatalf("a put beside a log that stands still: %v", err)
			}
		}
		_, text := fetch(c.Members[0].ClientURL + "/metrics")
		for line := range strings.Lines(text) {
			if value, isWanted := strings.CutPrefix(line, "stele_log_lines_dropped_total "); isWanted {
				return strings.TrimSpace(value) != "0"
			}
		}
		return false
	})
}

// TestATerminalHasColumns runs a member at a terminal, and in a pipe.
func TestATerminalHasColumns(t *testing.T) {
	t.Parallel()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("there is no script, which makes a terminal")
	}
	dir := t.TempDir()
	// A check logs nothing that a member's start does not; it ends by itself with an error at a port that is taken.
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	taken := c.Members[0]
	line := fmt.Sprintf("%s --name=x --data-dir=%s --listen-client-urls=%s --advertise-client-urls=%s --listen-peer-urls=%s"+
		" --initial-advertise-peer-urls=%s --initial-cluster=x=%s", *bin, filepath.Join(dir, "data"), taken.ClientURL,
		taken.ClientURL, taken.PeerURL, taken.PeerURL, taken.PeerURL)
	terminal := exec.CommandContext(t.Context(), script, "--quiet", "--return", "--command", line, "/dev/null")
	terminal.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	out, err := terminal.CombinedOutput()
	if err == nil {
		t.Fatalf("it listens at a port that is taken: %s", out)
	}
	if !strings.Contains(string(out), "\x1b[31mERROR\x1b[0m member failed") || strings.Contains(string(out), `{"level"`) {
		t.Errorf("no coloured columns: %q", out)
	}
	plain := exec.CommandContext(t.Context(), "sh", "-c", line)
	out, err = plain.CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"msg":"member failed"`) || strings.Contains(string(out), "\x1b[") {
		t.Errorf("no JSON in a pipe: %v %q", err, out)
	}
}
