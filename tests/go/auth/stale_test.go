package auth

import (
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What the key holds when the users lose their rights, and what it holds from then on.
const key, stays, secret = "a", "stays", "secret"

// leader is the id of the member that a member takes for the leader, and its own.
func (s *server) leader() (leader, own uint64) {
	s.t.Helper()
	found := must[*pb.StatusResponse](s.t)(s.maintenance().Status(s.as("root"), &pb.StatusRequest{}))
	return found.Leader, found.Header.MemberId
}

// putValue puts a value to the key, and gives up with an error.
func (s *server) putValue(as, value string) (*pb.PutResponse, error) {
	return s.kv().Put(s.as(as), &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
}

// lease is attached to a key that the users may write.
const lease = 77

// outdated are the calls of a user at a member that does not know yet that the user lost its rights. None may write,
// and none may show what was written since.
func outdated(t *testing.T, s *server, user string, since int64) []func() {
	read := func(serializable bool) (*pb.RangeResponse, error) {
		return s.kv().Range(s.as(user), &pb.RangeRequest{Key: []byte(key), Serializable: serializable})
	}
	calls := []func(){
		func() {
			_, err := s.putValue(user, "written by "+user)
			expectAny(t, "put of "+user, err)
		},
		func() {
			_, err := read(false)
			expectAny(t, "linearizable get of "+user, err)
		},
		func() {
			// A serializable read may be old, and then is refused or shows what was there before.
			found, err := read(true)
			if err == nil && (len(found.Kvs) != 1 || string(found.Kvs[0].Value) != stays) {
				t.Errorf("serializable get of %s: %v", user, found.Kvs)
			}
		},
	}
	// A watch belongs to its user, not to the token: carl, whose password alone was changed, keeps what he may read.
	if user != "carl" {
		calls = append(calls, func() { expectNoEvents(t, s, user, since+1) })
	}
	return calls
}

// expectNoEvents watches the key until the watch is canceled, or refused.
func expectNoEvents(t *testing.T, s *server, user string, from int64) {
	stream := s.watch(user, &pb.WatchCreateRequest{Key: []byte(key), StartRevision: from})
	for {
		response, err := stream.Recv()
		if status.Code(err) == codes.DeadlineExceeded {
			t.Errorf("the watch of %s was not canceled", user)
		}
		if err != nil || response.Canceled {
			return
		}
		if len(response.Events) > 0 {
			t.Errorf("watch of %s: %v", user, response.Events)
		}
	}
}

// TestAMemberThatLagsLetsNobodyInWhoLostTheRight stops a member, takes rights away, and asks that member the moment it
// goes on: as a follower that has not heard of the change, and as a leader that does not know that it was replaced.
func TestAMemberThatLagsLetsNobodyInWhoLostTheRight(t *testing.T) {
	for what, leads := range map[string]bool{"follower": false, "leader": true} {
		t.Run(what, func(t *testing.T) {
			servers := enabled(t, 3, "--heartbeat-interval=20", "--election-timeout=300")
			leader, _ := servers[0].leader()
			var lagging, other *server
			for i, s := range servers {
				if _, own := s.leader(); (own == leader) == leads && lagging == nil {
					lagging, other = s, servers[(i+1)%3]
					defer lagging.cluster.Members[i].Thaw()
				}
			}
			askAfterAStop(t, lagging, other, servers)
		})
	}
}

// askAfterAStop is that test with one member that is stopped and another that is not.
func askAfterAStop(t *testing.T, lagging, other *server, servers []*server) {
	lagging.run(userAdd("root", "bob", "b"), userAdd("root", "carl", "c"), grant("root", "bob", "r"), grant("root", "carl", "r"),
		login("ann", "the password of ann"), login("bob", "b"), login("carl", "c"), leaseGrant("ann", lease), put("ann", "b", attached(lease)))
	since := must[*pb.PutResponse](t)(lagging.putValue("ann", stays)).Header.Revision
	for _, user := range []string{"ann", "bob", "carl"} {
		for _, s := range servers {
			s.run(get(user, key, ""), keepAlive(user, lease))
		}
	}
	_, stopped := lagging.leader()
	member := lagging.cluster.Members[indexOf(servers, lagging)]
	if err := member.Freeze(); err != nil {
		t.Fatal(err)
	}
	for {
		if leader, _ := other.leader(); leader != 0 && leader != stopped {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	other.run(revoke("root", "ann", "r"), userDelete("root", "bob"), passwd("root", "carl", "another"))
	must[*pb.PutResponse](t)(other.putValue("root", secret))
	var calls sync.WaitGroup
	for _, user := range []string{"ann", "bob", "carl"} {
		for _, call := range outdated(t, lagging, user, since) {
			calls.Go(call)
		}
	}
	if err := member.Thaw(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	found := must[*pb.RangeResponse](t)(lagging.kv().Range(lagging.as("root"), &pb.RangeRequest{Key: []byte(key)}))
	if string(found.Kvs[0].Value) != secret || found.Kvs[0].Version != 2 {
		t.Errorf("%v instead of %q", found.Kvs, secret)
	}
	// It has caught up, and refuses each for its reason, also what a member that lags does by the rights of that moment.
	for user, reason := range map[string]string{"ann": denied, "bob": invalid, "carl": invalid} {
		if err := lagging.get(user, key); status.Convert(err).Message() != reason {
			t.Errorf("%s: %v instead of %q", user, err, reason)
		}
		_, err := keepAlive(user, lease).call(lagging)
		expect(t, "a renewal of "+user, err, reason)
		for _, step := range forAnyUser(user) {
			if _, err := step.call(lagging); user != "ann" {
				expect(t, step.what, err, reason)
			}
		}
	}
}

func indexOf(servers []*server, wanted *server) int {
	for i, s := range servers {
		if s == wanted {
			return i
		}
	}
	return -1
}
