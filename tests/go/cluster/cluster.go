// Package cluster starts real server processes, one member or several, and lets a test hurt them.
//
// Any server that takes etcd's flags will do; the package does not know which one it runs:
//
//	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
//	c.Members[0].Kill()
//	c.Members[0].Restart(ctx)
//
// Everything is on loopback, unless it is given another home, and in a temporary directory, and is gone after Close, also when the test process
// dies. Nothing here sleeps for a fixed time: readiness is asked for until it is there or the context ends.
package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// StartTimeout bounds a start of a whole cluster or a restart of a member; generous, as two cores may be shared.
const StartTimeout = 60 * time.Second

// tailLines is how much of each member's log a failed test prints.
const tailLines = 40

// Config says what to start.
type Config struct {
	// Binary is the server to run.
	Binary string
	// Size is the number of members; 0 means 1.
	Size int
	// Args are added to every member's command line, after the flags the package sets itself.
	Args []string
	// Hosts says where each member lives, one for each; none means loopback for all.
	Hosts []Host
	// TLS makes client URLs https: it is how members are asked whether they are ready. The flags come with Args.
	TLS *tls.Config
	// SecurePeers makes peer URLs https. The flags come with Args.
	SecurePeers bool
	// Prepare is called for each member before the first one starts, with the flags that found the cluster: a data
	// directory can be restored then.
	Prepare func(m *Member, initialCluster, token string) error
	// UnixPeers lets the members listen for each other at Unix sockets, with TLS if SecurePeers is set.
	UnixPeers bool
}

// Host is where a member runs.
type Host struct {
	// Address is the IP address it listens on and is known by.
	Address string
	// Prefix are the words before its command line, such as `ip netns exec NAME`. The process must stay the one
	// that is started, for it is killed and frozen.
	Prefix []string
}

// Cluster is a set of running (or killed) members.
type Cluster struct {
	Members []*Member
	dir     string
	// allowed are texts of errors that the logs may have.
	allowed []string
}

// Start starts all members and waits until each of them serves.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := checkBinary(config.Binary); err != nil {
		return nil, err
	}
	c, err := layOut(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := c.startAll(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.LogTails())
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ForTest starts a cluster that ends with the test; a failed test prints the end of every member's log.
func ForTest(t testing.TB, config Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), config)
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.LogTails())
		}
		c.mustHaveNoErrors(t)
		if err := c.Close(); err != nil {
			t.Errorf("close cluster: %v", err)
		}
	})
	return c
}

// Endpoints are the client URLs of all members, running or not.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, len(c.Members))
	for i, m := range c.Members {
		endpoints[i] = m.ClientURL
	}
	return endpoints
}

// UseTLS changes how members are asked whether they are ready.
func (c *Cluster) UseTLS(config *tls.Config) {
	for _, m := range c.Members {
		m.tls = config
	}
}

// LogTails is the end of every member's log, under its name.
func (c *Cluster) LogTails() string {
	var out strings.Builder
	for _, m := range c.Members {
		fmt.Fprintf(&out, "--- last %d log lines of %s\n%s\n", tailLines, m.Name, m.LogTail(tailLines))
	}
	return out.String()
}

// Close kills what still runs and removes everything from disk.
func (c *Cluster) Close() error {
	for _, m := range c.Members {
		m.Kill()
	}
	return os.RemoveAll(c.dir)
}

// layOut decides names, ports and directories, and starts nothing.
func layOut(config Config) (*Cluster, error) {
	size := max(config.Size, 1)
	hosts := config.Hosts
	if hosts == nil {
		hosts = slices.Repeat([]Host{{Address: "127.0.0.1"}}, size)
	}
	if len(hosts) != size {
		return nil, fmt.Errorf("%d members have %d hosts", size, len(hosts))
	}
	ports, err := FreePorts(2 * size)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stele-cluster-")
	if err != nil {
		return nil, err
	}
	clientScheme, peerScheme := "http", "http"
	if config.TLS != nil {
		clientScheme = "https"
	}
	if config.SecurePeers {
		peerScheme = "https"
	}
	c := &Cluster{dir: dir}
	peers := make([]string, size)
	for i := range size {
		m := &Member{
			Name:      fmt.Sprintf("m%d", i+1),
			ClientURL: fmt.Sprintf("%s://%s:%d", clientScheme, hosts[i].Address, ports[2*i]),
			PeerURL:   fmt.Sprintf("%s://%s:%d", peerScheme, hosts[i].Address, ports[2*i+1]),
			tls:       config.TLS,
			binary:    config.Binary,
			prefix:    hosts[i].Prefix,
		}
		if config.UnixPeers {
			scheme := map[string]string{"http": "unix", "https": "unixs"}[peerScheme]
			m.PeerURL = scheme + "://" + filepath.Join(dir, m.Name+".sock")
		}
		m.DataDir = filepath.Join(dir, m.Name)
		m.logPath = filepath.Join(dir, m.Name+".log")
		peers[i] = m.Name + "=" + m.PeerURL
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		initialCluster, token := strings.Join(peers, ","), filepath.Base(dir)
		m.args = append(m.flags(initialCluster, token), config.Args...)
		if config.Prepare == nil {
			continue
		}
		if err := config.Prepare(m, initialCluster, token); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", m.Name, err), c.Close())
		}
	}
	return c, nil
}

// startAll starts every member before it waits for any: none can be ready before a quorum runs.
func (c *Cluster) startAll(ctx context.Context) error {
	for _, m := range c.Members {
		if err := m.Start(); err != nil {
			return err
		}
	}
	for _, m := range c.Members {
		if err := m.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}
