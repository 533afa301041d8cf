package auth

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

// queue waits until a lock or an election has so many keys, and returns them.
func (s *server) queue(name string, size int) []string {
	s.t.Helper()
	for ctx := s.as("root"); ; {
		request := &pb.RangeRequest{Key: []byte(name + "/"), RangeEnd: []byte(name + "0"), SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE}
		found, err := s.kv().Range(ctx, request)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(found.Kvs) == size {
			var keys []string
			for _, kv := range found.Kvs {
				keys = append(keys, string(kv.Key))
			}
			return keys
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waits are the calls that wait in the queue of a name.
func (s *server) waits(as string) map[string]func(name string) error {
	return map[string]func(name string) error{
		"lock": func(name string) error { return lockWith(s, as, name) },
		"campaign": func(name string) error {
			_, err := v3electionpb.NewElectionClient(s.conn).Campaign(s.as(as), &v3electionpb.CampaignRequest{Name: []byte(name)})
			return err
		},
	}
}

// TestAWaitStaysThatOfItsUser ends the token of a call that waits: it goes on, and removes its key when it is given up.
func TestAWaitStaysThatOfItsUser(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	for what, wait := range s.waits("ann") {
		name := "a" + what
		s.run(login("ann", "the password of ann"))
		if err := wait(name); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- wait(name) }()
		first := s.queue(name, 2)[0]
		s.run(passwd("root", "ann", "the password of ann"), remove("root", first, "", false))
		if err := <-ended; err != nil {
			t.Errorf("%s after its token ended: %v", what, err)
		}

		s.run(login("ann", "the password of ann"))
		go func() { ended <- wait(name) }()
		given := s.queue(name, 2)
		s.run(passwd("root", "ann", "the password of ann"), remove("root", given[1], "", false))
		expectAny(t, what+" whose key was deleted", <-ended)
		s.queue(name, 1)
	}
}

// TestAGivenUpWaitRemovesItsKey has a client go whose token has ended.
func TestAGivenUpWaitRemovesItsKey(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	lock := &v3lockpb.LockRequest{Name: []byte("a")}
	if err := lockWith(s, "ann", "a"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := s.cancelable("ann")
	ended := make(chan error, 1)
	go func() {
		_, err := v3lockpb.NewLockClient(s.conn).Lock(ctx, lock)
		ended <- err
	}()
	s.queue("a", 2)
	s.run(passwd("root", "ann", "another"))
	cancel()
	expectAny(t, "a lock that was given up", <-ended)
	s.queue("a", 1)
}

// TestARevokedRoleEndsWaits takes the permission away from calls that wait for nothing that comes.
func TestARevokedRoleEndsWaits(t *testing.T) {
	t.Parallel()
	servers := enabled(t, 3)
	s, other := servers[2], servers[0]
	s.run(leaseGrant("root", 7))
	s.run(put("ann", "a", attached(7)))
	observer, err := v3electionpb.NewElectionClient(s.conn).Observe(s.as("ann"), &v3electionpb.LeaderRequest{Name: []byte("a")})
	if err != nil {
		t.Fatal(err)
	}
	renewals, err := s.lease().LeaseKeepAlive(s.as("ann"))
	if err != nil {
		t.Fatal(err)
	}
	renew := func() error {
		if err := renewals.Send(&pb.LeaseKeepAliveRequest{ID: 7}); err != nil {
			return err
		}
		_, err := renewals.Recv()
		return err
	}
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	ended := map[string]chan error{"observe": make(chan error, 1)}
	go func() {
		_, err := observer.Recv()
		ended["observe"] <- err
	}()
	for what, wait := range s.waits("ann") {
		if err := wait("b" + what); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		ended[what] = done
		go func() { done <- wait("b" + what) }()
		s.queue("b"+what, 2)
	}
	other.run(revoke("root", "ann", "r"))
	for what, ended := range ended {
		expect(t, what, <-ended, denied)
	}
	expect(t, "a renewal", renew(), denied)
}

// TestAnUnusedTokenEnds waits for longer than --auth-token-ttl.
func TestAnUnusedTokenEnds(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1, "--auth-token-ttl=1")[0]
	// A token may end before its use, if this process is held up that long between the two.
	mustBeTaken := func() {
		t.Helper()
		var err error
		for range 10 {
			s.run(login("ann", "the password of ann"))
			if err = s.get("ann", "a"); err == nil {
				return
			}
			expect(t, "a get with a new token", err, invalid)
		}
		t.Fatalf("no new token is taken: %v", err)
	}
	mustBeTaken()
	time.Sleep(2500 * time.Millisecond)
	expect(t, "a get with an unused token", s.get("ann", "a"), invalid)
	mustBeTaken()
}

// TestARangeStreamNeedsThePermission asks for permitted and other ranges.
func TestARangeStreamNeedsThePermission(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	for n := range 20 {
		s.run(put("root", fmt.Sprintf("b%d", n)))
	}
	stream := func(as, key, end string) error {
		stream, err := s.kv().RangeStream(s.as(as), &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	if err := stream("ann", "a", "c"); err != nil {
		t.Errorf("a permitted range: %v", err)
	}
	expect(t, "another range", stream("ann", "a", "d"), denied)
	expect(t, "a range of no user", stream("", "a", "b"), noUser)
	s.run(permit("root", "r", authpb.READ, "c", "d"))
	if err := stream("ann", "a", "d"); err != nil {
		t.Errorf("two permitted ranges: %v", err)
	}
}
