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
	// slowPatience is that for a command that puts for up to a minute.
	slowPatience = 5 * time.Minute
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
	// lease is the one that there is.
	lease clientv3.LeaseID
	// joiner can become a member.
	joiner *cluster.Member
}

type member struct {
	id      uint64
	url     string
	peerURL string
}

func newSystem(t *testing.T, name, binary string) *system {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Size: clusterSize, Args: []string{"--bcrypt-cost=4"}})
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	joiner, err := c.Layout(binary, "--bcrypt-cost=4")
	if err != nil {
		t.Fatal(err)
	}
	s := &system{name: name, cluster: c, client: client, dir: t.TempDir(), joiner: joiner}
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
	for _, m := range s.cluster.Members[:clusterSize] {
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
		"{follower-peer}", s.members[1].peerURL, "{joiner-peer}", s.joiner.PeerURL, "{lease}", fmt.Sprintf("%x", s.lease),
	).Replace(word)
}

// run runs etcdctl. A command that waits is interrupted as soon as it has printed something, or done what it is to do.
func (s *system) run(ctx context.Context, c command) (outcome, error) {
	limit := patience
	if c.slow {
		limit = slowPatience
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	words := strings.Fields(c.line)
	if !strings.Contains(c.line, "--endpoints") {
		words = append([]string{"--endpoints={all}"}, words...)
	}
	for i := range words {
		words[i] = s.fill(words[i])
	}
	cmd := exec.CommandContext(ctx, cluster.EtcdTool("etcdctl"), words...)
	cmd.Stdin = strings.NewReader(c.input)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(set string) bool { return strings.HasPrefix(set, "ETCD") })
	var stdout, stderr notedBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	if c.waits && !stdout.waitForLine(ctx) {
		return outcome{}, fmt.Errorf("%s printed nothing: %s", c.line, stderr.String())
	}
	if c.until != nil {
		if err := c.until(ctx, s); err != nil {
			return outcome{}, fmt.Errorf("%s: %w: %s", c.line, err, stderr.String())
		}
	}
	if c.waits || c.until != nil {
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
	for _, m := range s.cluster.Members[:clusterSize] {
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

// wait asks until the answer is yes; the error is the last one of asking.
func (s *system) wait(ctx context.Context, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	if !eventually(ctx, func() (yes bool) { yes, last = is(); return yes }) {
		return fmt.Errorf("%s: not in time: %w", s.name, errors.Join(last, ctx.Err()))
	}
	return nil
}

// learnLease finds the lease that was granted. A member of etcd lists those that it has applied.
func (s *system) learnLease(ctx context.Context) error {
	return s.wait(ctx, func() (bool, error) {
		list, err := s.client.Leases(ctx)
		if err != nil || len(list.Leases) != 1 {
			return false, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lease = list.Leases[0].ID
		return true, nil
	})
}

// startJoiner starts the member that was added, and waits until the leader must know that it has caught up: entries
// that came to be after it had applied others are sent to it when it has acknowledged those.
func (s *system) startJoiner(ctx context.Context) error {
	if err := s.learnAdded(ctx); err != nil {
		return err
	}
	peers := map[string]string{}
	for _, m := range s.cluster.Members {
		peers[m.Name] = m.PeerURL
	}
	s.joiner.JoinExisting(peers)
	if err := s.joiner.Start(); err != nil {
		return err
	}
	var first, last uint64
	learn := func(into *uint64, least uint64) error {
		return s.wait(ctx, func() (bool, error) {
			status, err := s.client.Status(ctx, s.joiner.ClientURL)
			if err != nil {
				return false, err
			}
			*into = status.RaftAppliedIndex
			return *into > least, nil
		})
	}
	if err := learn(&first, 0); err != nil {
		return err
	}
	status, err := s.client.Status(ctx, s.fill("{leader}"))
	if err != nil {
		return err
	}
	if _, err := s.client.Put(ctx, "joined", s.name); err != nil {
		return err
	}
	return learn(&last, max(first, status.RaftAppliedIndex))
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
