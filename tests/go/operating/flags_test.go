package operating

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// one starts a lone member with these flags.
func one(t *testing.T, args ...string) (*cluster.Member, *clientv3.Client) {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: args})
	return c.Members[0], cluster.ClientOf(t, patience, c.Members...)
}

// TestFlagsTakeEffectOnAMember looks at a member for what a flag changes in it.
func TestFlagsTakeEffectOnAMember(t *testing.T) {
	for name, test := range map[string]func(ctx context.Context, t *testing.T){
		"log-format": func(_ context.Context, t *testing.T) {
			m, _ := one(t, "--log-format=console")
			log, err := m.RunLog()
			if err != nil || !strings.Contains(log, "\tready to serve client requests") || strings.Contains(log, `{"level"`) {
				t.Errorf("no columns: %v %s", err, log)
			}
		},
		"log-level": func(ctx context.Context, t *testing.T) {
			m, client := one(t, "--log-level=debug")
			if _, err := client.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
			until(t, "a line about a request that was not slow", func() bool {
				log, err := m.RunLog()
				lines := strings.Split(log, "\n")
				return err == nil && slices.ContainsFunc(lines, func(line string) bool {
					return strings.Contains(line, `"level":"debug"`) && strings.Contains(line, `"request stats"`) && strings.Contains(line, "KV/Put")
				})
			})
		},
		"logger": func(ctx context.Context, t *testing.T) {
			m, _ := one(t, "--logger=zap")
			if log, err := m.RunLog(); err != nil || !strings.Contains(log, `{"level":"info"`) {
				t.Errorf("no lines of zap's form: %v %s", err, log)
			}
			c, err := cluster.Start(ctx, cluster.Config{Binary: *bin, Args: []string{"--logger=capnslog"}})
			if err == nil {
				t.Fatal("started with a logger that etcd had once", c.Close())
			}
			if !strings.Contains(err.Error(), `invalid value "capnslog" for --logger: expected zap`) {
				t.Error(err)
			}
		},
		"wal-dir": func(_ context.Context, t *testing.T) {
			dir := t.TempDir()
			one(t, "--wal-dir="+dir)
			if segments, err := filepath.Glob(filepath.Join(dir, "*.seg")); err != nil || len(segments) == 0 {
				t.Errorf("no segments in %s: %v", dir, err)
			}
		},
		"enable-log-rotation": logsRotate,
		"log-outputs":         logsGoToTheJournal,
		"max-learners": func(ctx context.Context, t *testing.T) {
			_, client := one(t, "--max-learners=2")
			for n := range 2 {
				if _, err := client.MemberAddAsLearner(ctx, []string{fmt.Sprint("http://127.0.0.1:", n+1)}); err != nil {
					t.Errorf("learner %d: %v", n, err)
				}
			}
			if _, err := client.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:3"}); !errors.Is(err, rpctypes.ErrTooManyLearners) {
				t.Errorf("a third learner: %v", err)
			}
		},
		"watch-progress-notify-interval": func(ctx context.Context, t *testing.T) {
			// A timer without a period must not end the process.
			_, client := one(t, "--watch-progress-notify-interval=0")
			events := client.Watch(ctx, "k", clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
			if created := <-events; !created.Created {
				t.Fatalf("%+v", created)
			}
			if _, err := client.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
			if told := <-events; len(told.Events) != 1 {
				t.Errorf("%+v", told)
			}
		},
		"pre-vote":                votesWithoutAsking,
		"socket-reuse-port":       portsAreShared,
		"grpc-keepalive-interval": silentClientsAreGivenUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			test(ctx, t)
		})
	}
}

// logsRotate writes more than a file holds.
func logsRotate(ctx context.Context, t *testing.T) {
	dir := t.TempDir()
	_, client := one(t, "--log-outputs="+filepath.Join(dir, "stele.log"), "--enable-log-rotation", "--warning-unary-request-duration=1ns",
		`--log-rotation-config-json={"maxsize": 1, "compress": true}`)
	key := strings.Repeat("k", 10_000)
	until(t, "an old file", func() bool {
		for n := range 50 {
			if _, err := client.Put(ctx, fmt.Sprint(key, n), "value"); err != nil {
				t.Fatal(err)
			}
		}
		old, err := filepath.Glob(filepath.Join(dir, "stele-*.log.gz"))
		return err == nil && len(old) > 0
	})
}

// logsGoToTheJournal puts a socket where the journal's is.
func logsGoToTheJournal(_ context.Context, t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts the socket where the journal's is")
	}
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	journal, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	mount := `mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && mount --bind ` + dir + ` /run/systemd/journal && exec "$@"`
	host := cluster.Host{Address: "127.0.0.1", Prefix: []string{"unshare", "--mount", "sh", "-c", mount, "sh"}}
	heard := make(chan string, 1)
	go func() {
		var text strings.Builder
		buffer := make([]byte, 1<<16)
		for !strings.Contains(text.String(), "ready to serve client requests") {
			n, err := journal.Read(buffer)
			if err != nil {
				break
			}
			text.Write(buffer[:n])
		}
		heard <- text.String()
	}()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Hosts: []cluster.Host{host}, Args: []string{"--log-outputs=systemd/journal"}})
	select {
	case text := <-heard:
		for _, field := range []string{"MESSAGE={", "PRIORITY=6", "SYSLOG_IDENTIFIER="} {
			if !strings.Contains(text, field) {
				t.Errorf("no %s in %.500s", field, text)
			}
		}
	case <-time.After(patience):
		t.Error("the journal has heard nothing")
	}
	if log, err := c.Members[0].RunLog(); err != nil || log != "" {
		t.Errorf("the standard error has lines too: %v %.500s", err, log)
	}
}

// votesWithoutAsking leaves one member of three alone: it campaigns in one term after the other.
func votesWithoutAsking(ctx context.Context, t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{
		"--pre-vote=false", "--heartbeat-interval=50", "--election-timeout=500",
	}})
	alone := c.Members[0]
	client := cluster.ClientOf(t, patience, alone)
	status, err := client.Status(ctx, alone.ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members[1:] {
		m.Kill()
	}
	until(t, "two terms more", func() bool {
		now, err := client.Status(ctx, alone.ClientURL)
		return err == nil && now.RaftTerm >= status.RaftTerm+2
	})
}

// silentClientsAreGivenUp opens a connection that answers no ping.
func silentClientsAreGivenUp(_ context.Context, t *testing.T) {
	m, _ := one(t, "--grpc-keepalive-interval=1s", "--grpc-keepalive-timeout=1s")
	connection, err := net.Dial("tcp", strings.TrimPrefix(m.ClientURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	// The preface, and empty settings.
	if _, err := connection.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if err := connection.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var received bytes.Buffer
	_, err = received.ReadFrom(connection)
	if timeout, isNet := err.(net.Error); isNet && timeout.Timeout() {
		t.Error("it is still open")
	}
	if ping := []byte("\x00\x00\x08\x06\x00\x00\x00\x00\x00"); !bytes.Contains(received.Bytes(), ping) {
		t.Errorf("it was not pinged: %x", received.Bytes())
	}
}

// portsAreShared listens on the ports of members itself.
func portsAreShared(ctx context.Context, t *testing.T) {
	share := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var err error
		control := socket.Control(func(descriptor uintptr) {
			err = syscall.SetsockoptInt(int(descriptor), syscall.SOL_SOCKET, reusePort, 1)
		})
		return errors.Join(control, err)
	}}
	for _, isShared := range []bool{true, false} {
		m, _ := one(t, fmt.Sprint("--socket-reuse-port=", isShared))
		for _, url := range []string{m.ClientURL, m.PeerURL} {
			listener, err := share.Listen(ctx, "tcp", strings.TrimPrefix(url, "http://"))
			if err == nil {
				listener.Close()
			}
			if isShared && err != nil || !isShared && !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("shared %v: a second listener on %s: %v", isShared, url, err)
			}
		}
	}
}

// reusePort is SO_REUSEPORT, which package syscall does not name on every machine.
const reusePort = 0xf
