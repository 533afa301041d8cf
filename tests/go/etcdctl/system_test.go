// Package etcdctl compares what the real etcdctl prints, and how it ends, against etcd and against Stele: the same
// commands, one after the other, to a fresh cluster of each.
//
// The table of commands is in commands_test.go; the comparison writes docs/operating/etcdctl.md with -update and fails
// if that file says something else.
package etcdctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"stele.test/cluster"
)

const (
	clusterSize = 3
	// patience bounds every wait for something that must happen.
	patience = 60 * time.Second
	// pollInterval only decides how soon a test notices.
	pollInterval = 50 * time.Millisecond
)

// system is one of the two clusters, with the roles of its members when they were asked last.
type system struct {
	name    string
	cluster *cluster.Cluster
	client  *clientv3.Client
	dir     string

	mu sync.Mutex
	// members are the leader first, then the others in the order of their names.
	members []member
	// added is the member that was added last.
	added uint64
}

type member struct {
	id      uint64
	url     string
	peerURL string
}

func newSystem(t *testing.T, name, binary string) *system {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Size: clusterSize})
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	s := &system{name: name, cluster: c, client: client, dir: t.TempDir()}
	if err := s.learnRoles(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// learnRoles asks who leads.
func (s *system) learnRoles(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var leader, others []member
	for _, m := range s.cluster.Members {
		status, err := s.client.Status(ctx, m.ClientURL)
		if err != nil {
			return err
		}
		found := member{status.Header.MemberId, m.ClientURL, m.PeerURL}
		if status.Leader == found.id {
			leader = append(leader, found)
		} else {
			others = append(others, found)
		}
	}
	if len(leader) != 1 {
		return fmt.Errorf("%s has %d leaders", s.name, len(leader))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(leader, others...)
	return nil
}

// outcome is how a command ended.
type outcome struct {
	exit           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d\n%s%s", o.exit, indented("| ", o.stdout), indented("! ", o.stderr))
}

func indented(mark, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + mark + strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// fill replaces what stands for a part of the cluster.
func (s *system) fill(word string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var urls []string
	for _, m := range s.members {
		urls = append(urls, m.url)
	}
	return strings.NewReplacer(
		"{all}", strings.Join(urls, ","), "{leader}", urls[0], "{follower}", urls[1],
		"{leader-id}", fmt.Sprintf("%x", s.members[0].id), "{follower-id}", fmt.Sprintf("%x", s.members[1].id),
		"{added-id}", fmt.Sprintf("%x", s.added), "{dir}", s.dir,
		"{follower-peer}", s.members[1].peerURL,
	).Replace(word)
}

// run runs etcdctl. A command that waits is interrupted as soon as it has printed something.
func (s *system) run(ctx context.Context, c command) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	words := strings.Fields(c.line)
	if !strings.Contains(c.line, "--endpoints") {
		words = append([]string{"--endpoints={all}"}, words...)
	}
	for i := range words {
		words[i] = s.fill(words[i])
	}
	cmd := exec.CommandContext(ctx, cluster.EtcdTool("etcdctl"), words...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(set string) bool { return strings.HasPrefix(set, "ETCD") })
	var stdout, stderr notedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	if c.waits {
		if !stdout.waitForLine(ctx) {
			return outcome{}, fmt.Errorf("%s printed nothing: %s", c.line, stderr.String())
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return outcome{}, err
		}
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("%s did not end: %s", c.line, stderr.String())
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}

// notedBuffer collects what a process prints.
type notedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *notedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *notedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *notedBuffer) waitForLine(ctx context.Context) bool {
	return eventually(ctx, func() bool { return strings.Contains(b.String(), "\n") })
}

// eventually asks until the answer is yes; it is false when the context ends first.
func eventually(ctx context.Context, is func() bool) bool {
	for !is() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pollInterval):
		}
	}
	return true
}

// alarm raises an alarm for the leader, which etcdctl cannot.
func (s *system) alarm(ctx context.Context, kind pb.AlarmType) error {
	conn, err := grpc.NewClient(strings.TrimPrefix(s.fill("{leader}"), "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	request := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: kind, MemberID: s.members[0].id}
	if _, err = pb.NewMaintenanceClient(conn).Alarm(ctx, request); err != nil {
		return err
	}
	return s.waitAll(ctx, func(status *clientv3.StatusResponse) bool { return len(status.Errors) > 0 })
}

// waitAll waits until the status of each member is as it should be.
func (s *system) waitAll(ctx context.Context, is func(*clientv3.StatusResponse) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, m := range s.cluster.Members {
		var last *clientv3.StatusResponse
		if !eventually(ctx, func() bool {
			status, err := s.client.Status(ctx, m.ClientURL)
			last = status
			return err == nil && is(status)
		}) {
			return fmt.Errorf("%s of %s: %v", m.Name, s.name, last)
		}
	}
	return nil
}

// learnAdded finds the member that is not of the first ones.
func (s *system) learnAdded(ctx context.Context) error {
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, listed := range list.Members {
		known := false
		for _, m := range s.members {
			known = known || m.id == listed.ID
		}
		if !known {
			s.added = listed.ID
		}
	}
	return nil
}
