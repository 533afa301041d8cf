package auth

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

const (
	denied  = "etcdserver: permission denied"
	noUser  = "etcdserver: user name is empty"
	invalid = "etcdserver: invalid auth token"

	oldRevision = "etcdserver: revision of auth store is old"
)

// secured is a cluster with auth enabled: ann may read and write [a, c), and root is logged in.
func secured(t *testing.T, size int, more ...string) []*server {
	t.Helper()
	servers := start(t, *bin, size, more...)
	s := servers[0]
	both := authpb.Permission_READWRITE
	for _, step := range []step{userAdd("", "root", "the password of root"), roleAdd("", "root"), grant("", "root", "root"),
		userAdd("", "ann", "the password of ann"), roleAdd("", "r"), permit("", "r", both, "a", "c"), grant("", "ann", "r")} {
		if _, err := step.call(s); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
	return servers
}

func enabled(t *testing.T, size int, more ...string) []*server {
	t.Helper()
	servers := secured(t, size, more...)
	must[*pb.AuthEnableResponse](t)(servers[0].auth().AuthEnable(servers[0].as(""), &pb.AuthEnableRequest{}))
	must[*pb.AuthenticateResponse](t)(servers[0].login("root", "the password of root"))
	must[*pb.AuthenticateResponse](t)(servers[0].login("ann", "the password of ann"))
	return servers
}

func (s *server) put(as, key string) error {
	_, err := put(as, key).call(s)
	return err
}

func (s *server) get(as, key string) error {
	_, err := get(as, key, "").call(s)
	return err
}

// run makes calls that must succeed.
func (s *server) run(steps ...step) {
	s.t.Helper()
	for _, step := range steps {
		if _, err := step.call(s); err != nil {
			s.t.Fatalf("%s: %v", step.what, err)
		}
	}
}

// ended makes a call whose token ended with a change that the called member may not have applied yet. Such a member still
// knows the token, and refuses the call for the revision that it has; answering took it past the change.
func ended(t *testing.T, what string, call func() error) {
	t.Helper()
	err := call()
	if status.Convert(err).Message() == oldRevision {
		err = call()
	}
	expect(t, what, err, invalid)
}

// TestATokenIsValidOnEveryMemberUntilItsUserChanges uses it on a member that may not have applied its entry yet.
func TestATokenIsValidOnEveryMemberUntilItsUserChanges(t *testing.T) {
	t.Parallel()
	servers := enabled(t, 3)
	for round := range 10 {
		must[*pb.AuthenticateResponse](t)(servers[round%3].login("ann", "the password of ann"))
		if err := servers[(round+1)%3].put("ann", "a"); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	servers[0].run(passwd("root", "ann", "another"))
	for _, s := range servers {
		ended(t, "put with a token of the old password", func() error { return s.put("ann", "a") })
	}
	must[*pb.AuthenticateResponse](t)(servers[1].login("ann", "another"))
	servers[2].run(put("ann", "a"), userDelete("root", "ann"))
	for _, s := range servers {
		ended(t, "get with a token of a deleted user", func() error { return s.get("ann", "a") })
	}
}

// TestARevokedRoleEndsTheWatchesOfItsUsers watches on one member and revokes on another.
func TestARevokedRoleEndsTheWatchesOfItsUsers(t *testing.T) {
	t.Parallel()
	servers := enabled(t, 3)
	watched, other := servers[2], servers[0]
	permitted := watched.watch("ann", &pb.WatchCreateRequest{Key: []byte("a")})
	roots := watched.watch("root", &pb.WatchCreateRequest{Key: []byte("a")})
	must[*pb.WatchResponse](t)(permitted.Recv())
	must[*pb.WatchResponse](t)(roots.Recv())
	other.run(put("root", "a"))
	if got := must[*pb.WatchResponse](t)(permitted.Recv()); len(got.Events) != 1 {
		t.Fatalf("%v instead of the event", got)
	}
	other.run(revoke("root", "ann", "r"), put("root", "a"))
	got := must[*pb.WatchResponse](t)(permitted.Recv())
	if !got.Canceled || len(got.Events) != 0 || got.CancelReason != "rpc error: code = PermissionDenied desc = "+denied {
		t.Errorf("%v instead of the end of the watch", got)
	}
	for range 2 {
		if got := must[*pb.WatchResponse](t)(roots.Recv()); len(got.Events) != 1 {
			t.Fatalf("%v instead of an event for root", got)
		}
	}
}

// TestAWatchGetsOnlyItsKeys has a watch of a permitted key beside changes of all others, with progress and fragments.
func TestAWatchGetsOnlyItsKeys(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	stream := s.watch("ann", &pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte("c"), ProgressNotify: true, Fragment: true, PrevKv: true})
	must[*pb.WatchResponse](t)(stream.Recv())
	for _, key := range []string{"secret", "c", "b\xff", "d", "a"} {
		s.run(put("root", key))
	}
	for seen := 0; seen < 2; {
		for _, event := range must[*pb.WatchResponse](t)(stream.Recv()).Events {
			if seen++; !strings.HasPrefix(string(event.Kv.Key), "a") && !strings.HasPrefix(string(event.Kv.Key), "b") {
				t.Fatalf("an event of %q", event.Kv.Key)
			}
		}
	}
	for _, end := range []string{"\x00", "d"} {
		got := must[*pb.WatchResponse](t)(s.watch("ann", &pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte(end)}).Recv())
		if !got.Canceled || got.CancelReason != "rpc error: code = PermissionDenied desc = "+denied {
			t.Errorf("a watch that ends at %q: %v", end, got)
		}
	}
}

// TestFragmentsAndProgressShowOnlyPermittedKeys has a watch whose first response is cut into fragments, and which hears
// of progress beyond changes of others.
func TestFragmentsAndProgressShowOnlyPermittedKeys(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1, "--max-request-bytes=65536", "--watch-progress-notify-interval=100ms")[0]
	const changes = 24
	value := bytes.Repeat([]byte("v"), 60<<10)
	var last int64
	for range changes {
		for _, key := range []string{"a", "secret"} {
			request := &pb.PutRequest{Key: []byte(key), Value: value}
			last = must[*pb.PutResponse](t)(s.kv().Put(s.as("root"), request)).Header.Revision
		}
	}
	stream := s.watch("ann", &pb.WatchCreateRequest{
		Key: []byte("a"), RangeEnd: []byte("c"), StartRevision: 1, ProgressNotify: true, Fragment: true, PrevKv: true,
	})
	events, fragments, progress := 0, 0, 0
	for events < changes || progress < 2 {
		got := must[*pb.WatchResponse](t)(stream.Recv())
		for _, event := range got.Events {
			events++
			if string(event.Kv.Key) != "a" || event.PrevKv != nil && string(event.PrevKv.Key) != "a" {
				t.Fatalf("an event of %q", event.Kv.Key)
			}
		}
		if got.Fragment {
			fragments++
		}
		if !got.Created && len(got.Events) == 0 {
			if progress++; got.Header.Revision < last {
				t.Errorf("progress to revision %d, and not to %d", got.Header.Revision, last)
			}
			// The next one follows a change that the user may not see.
			request := &pb.PutRequest{Key: []byte("secret")}
			last = must[*pb.PutResponse](t)(s.kv().Put(s.as("root"), request)).Header.Revision
		}
	}
	if events != changes || fragments == 0 {
		t.Errorf("%d events in %d fragments", events, fragments)
	}
}

// TestWatchesOfNoUserEndWhenAuthIsEnabled has a watch from before.
func TestWatchesOfNoUserEndWhenAuthIsEnabled(t *testing.T) {
	t.Parallel()
	s := secured(t, 1)[0]
	stream := s.watch("", &pb.WatchCreateRequest{Key: []byte("a")})
	must[*pb.WatchResponse](t)(stream.Recv())
	s.run(enable(""), login("root", "the password of root"), put("root", "a"))
	got := must[*pb.WatchResponse](t)(stream.Recv())
	if !got.Canceled || got.CancelReason != "rpc error: code = InvalidArgument desc = "+noUser || len(got.Events) != 0 {
		t.Errorf("%v instead of the end of the watch", got)
	}
}

// TestTheClusterItselfActsAsRoot has a lease expire whose keys no other user may write, history be compacted, and an alarm
// raised.
func TestTheClusterItselfActsAsRoot(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1, "--heartbeat-interval=20", "--election-timeout=200", "--quota-backend-bytes=4194304",
		"--auto-compaction-mode=periodic", "--auto-compaction-retention=1s")[0]
	stream := s.watch("root", &pb.WatchCreateRequest{Key: []byte("x")})
	must[*pb.WatchResponse](t)(stream.Recv())
	lease := must[*pb.LeaseGrantResponse](t)(s.lease().LeaseGrant(s.as("root"), &pb.LeaseGrantRequest{TTL: 1}))
	s.run(put("root", "x", attached(lease.ID)))
	must[*pb.WatchResponse](t)(stream.Recv())
	if got := must[*pb.WatchResponse](t)(stream.Recv()); got.Events[0].Type.String() != "DELETE" {
		t.Errorf("%v instead of the deletion", got)
	}
	ctx := s.as("root")
	old := func() error {
		_, err := s.kv().Range(ctx, &pb.RangeRequest{Key: []byte("x"), Revision: 2})
		return err
	}
	for old() == nil {
		s.run(put("root", "x"))
		time.Sleep(10 * time.Millisecond)
	}
	expect(t, "a revision that was compacted", old(), "etcdserver: mvcc: required revision has been compacted")
	large := &pb.PutRequest{Key: []byte("x"), Value: bytes.Repeat([]byte("v"), 1<<20)}
	var err error
	for n := 0; err == nil && n < 20; n++ {
		_, err = s.kv().Put(s.as("root"), large)
	}
	expect(t, "a put beyond the quota", err, "etcdserver: mvcc: database space exceeded")
	// The put is refused at once, and the alarm is a command of its own.
	ctx = s.as("ann")
	alarms := &pb.AlarmResponse{}
	for len(alarms.Alarms) == 0 {
		alarms = must[*pb.AlarmResponse](t)(s.maintenance().Alarm(ctx, &pb.AlarmRequest{}))
	}
	if len(alarms.Alarms) != 1 || alarms.Alarms[0].Alarm != pb.AlarmType_NOSPACE {
		t.Errorf("%v instead of the alarm", alarms)
	}
	expect(t, "a put during the alarm", s.put("ann", "a"), "etcdserver: mvcc: database space exceeded")
}

// TestLocksHaveTheRightsOfTheirCaller takes locks and elections on permitted and other names.
func TestLocksHaveTheRightsOfTheirCaller(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	lock := func(as, name string) error {
		return lockWith(s, as, name)
	}
	expect(t, "a lock of no user", lock("", "a"), noUser)
	expect(t, "a lock on another name", lock("ann", "x"), denied)
	if err := lock("ann", "a"); err != nil {
		t.Errorf("a lock on a permitted name: %v", err)
	}
	expect(t, "the leader of an election", leaderWith(s, "ann", "x"), denied)
}

// TestPromotionThroughThePeerPortNeedsRoot asks as etcd's members ask each other.
func TestPromotionThroughThePeerPortNeedsRoot(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	ask := func(token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.cluster.Members[0].PeerURL+"/members/promote/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for token, expected := range map[string]int{"": 500, "wrong.1": 500, s.tokens["ann"]: 500, s.tokens["root"]: 404} {
		if got := ask(token); got != expected {
			t.Errorf("%d instead of %d with %q", got, expected, token)
		}
	}
}

// TestTheClientAuthenticatesAgain uses etcd's client, whose token ends when the member restarts.
func TestTheClientAuthenticatesAgain(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	member := s.cluster.Members[0]
	client, err := clientv3.New(clientv3.Config{Endpoints: s.cluster.Endpoints(), Username: "ann", Password: "the password of ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	must[*clientv3.PutResponse](t)(client.Put(s.as(""), "a", "1"))
	member.Kill()
	if err := member.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.PutUntilAnswered(t.Context(), client, "a", "2"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	if _, err := client.Put(ctx, "x", "2"); err == nil || err.Error() != denied {
		t.Errorf("%v, although the state was restored", err)
	}
}

// TestABackupHasUsersAndRoles restores it with etcd's own tool, and logs in there with the same passwords.
func TestABackupHasUsersAndRoles(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	s.run(put("ann", "a"))
	path := filepath.Join(t.TempDir(), "backup.db")
	if err := os.WriteFile(path, saved(t, s), 0o600); err != nil {
		t.Fatal(err)
	}
	restore := func(m *cluster.Member, initialCluster, token string) error {
		out, err := exec.CommandContext(t.Context(), cluster.EtcdTool("etcdutl"), "snapshot", "restore", path,
			"--name="+m.Name, "--data-dir="+m.DataDir, "--initial-cluster="+initialCluster,
			"--initial-cluster-token="+token, "--initial-advertise-peer-urls="+m.PeerURL).CombinedOutput()
		if err != nil {
			t.Logf("%s", out)
		}
		return err
	}
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Prepare: restore})
	etcd := connected(t, c)
	for _, s := range []*server{s, etcd} {
		s.run(login("root", "the password of root"), login("ann", "the password of ann"), put("ann", "b"))
		expect(t, "a key of others", s.put("ann", "x"), denied)
	}
	for _, step := range []step{userList("root"), roleList("root"), userGet("root", "ann"), roleGet("root", "r"), authStatus("root")} {
		if expected, found := outcome(step.call(s)), outcome(step.call(etcd)); found != expected {
			t.Errorf("%s: etcd has %s instead of %s", step.what, found, expected)
		}
	}
}
