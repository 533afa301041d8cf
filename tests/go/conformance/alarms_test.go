package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// afterwards is asked while an alarm stands, and once more when it is disarmed.
func afterwards() []op {
	key, other := []byte("k"), []byte("other")
	put := requestOp(&pb.PutRequest{Key: key, Value: []byte("in a transaction")})
	deletion := requestOp(&pb.DeleteRangeRequest{Key: other})
	ranged := requestOp(&pb.RangeRequest{Key: key})
	all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	return []op{
		unary(&pb.PutRequest{Key: key, Value: []byte("v")}),
		unary(all),
		unary(&pb.RangeRequest{Key: key, Serializable: true}),
		rangeStream{all},
		unary(&pb.TxnRequest{Success: []*pb.RequestOp{ranged}}),
		unary(&pb.TxnRequest{Success: []*pb.RequestOp{put}}),
		unary(&pb.TxnRequest{Success: []*pb.RequestOp{ranged}, Failure: []*pb.RequestOp{put}}),
		unary(&pb.TxnRequest{Success: []*pb.RequestOp{deletion, ranged}}),
		unary(&pb.DeleteRangeRequest{Key: other}),
		unary(&pb.PutRequest{Key: other, Value: []byte("v")}),
		unary(&pb.LeaseGrantRequest{ID: 7, TTL: longTTL}),
		unary(&pb.LeaseTimeToLiveRequest{ID: 5, Keys: true}),
		unary(&pb.LeaseLeasesRequest{}),
		unary(&pb.LeaseRevokeRequest{ID: 7}),
		compaction{&pb.CompactionRequest{Revision: 2}},
		unary(&pb.HashKVRequest{Revision: 3}),
		unary(&pb.StatusRequest{}),
		unary(&pb.MemberListRequest{}),
		unary(&pb.AlarmRequest{}),
	}
}

// healthPaths are what operators look at.
var healthPaths = []string{
	"/health", "/health?exclude=NOSPACE", "/health?exclude=CORRUPT", "/health?serializable=true", "/livez", "/readyz",
	"/readyz/data_corruption",
}

// TestAlarmsRefuseAlike raises each alarm on both systems and compares what they refuse, what their health says, that
// a restart changes nothing, and that all is served again once it is disarmed.
func TestAlarmsRefuseAlike(t *testing.T) {
	sys := systems{reference: cluster.EtcdPath(), tested: *bin}
	j, err := newJudge(t.Context(), sys)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	step := func(o op) {
		t.Helper()
		if d := j.compare(t.Context(), o); d != nil {
			t.Fatal(d)
		}
	}
	step(unary(&pb.LeaseGrantRequest{ID: 5, TTL: longTTL}))
	for _, key := range []string{"k", "other", "k"} {
		step(unary(&pb.PutRequest{Key: []byte(key), Value: []byte("before"), Lease: 5}))
	}
	for _, kind := range []pb.AlarmType{pb.AlarmType_CORRUPT, pb.AlarmType_NOSPACE} {
		alarm := func(action pb.AlarmRequest_AlarmAction) op {
			return unary(&pb.AlarmRequest{Action: action, MemberID: selfSymbol, Alarm: kind})
		}
		step(alarm(pb.AlarmRequest_ACTIVATE))
		sameHealth(t, j, kind.String())
		both(func() { restart(t, j.reference) }, func() { restart(t, j.tested) })
		if t.Failed() {
			return
		}
		sameHealth(t, j, kind.String()+" after a restart")
		for _, o := range afterwards() {
			step(o)
		}
		step(alarm(pb.AlarmRequest_DEACTIVATE))
		sameHealth(t, j, "disarmed")
		for _, o := range afterwards() {
			step(o)
		}
	}
}

// restart kills the member and starts it again. It is not ready while an alarm stands.
func restart(t *testing.T, s *side) {
	m := s.cluster.Members[0]
	m.Kill()
	if err := m.Start(); err != nil {
		t.Error(err)
		return
	}
	s.conn.Close()
	if err := s.connect(t.Context()); err != nil {
		t.Errorf("%s: %v", s.name, err)
		return
	}
	// A linearizable read is served once there is a leader.
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if _, err := pb.NewKVClient(s.conn).Range(ctx, &pb.RangeRequest{Key: []byte("k")}); err == nil {
			return
		}
	}
	t.Errorf("%s serves no read after its restart", s.name)
}

func sameHealth(t *testing.T, j *judge, when string) {
	t.Helper()
	for _, path := range healthPaths {
		reference, tested := askHealth(t, j.reference, path), askHealth(t, j.tested, path)
		if reference != tested {
			t.Errorf("%s: %s: the reference says %q, the tested system %q", when, path, reference, tested)
		}
	}
}

func askHealth(t *testing.T, s *side, path string) string {
	t.Helper()
	response, err := http.Get(s.cluster.Members[0].ClientURL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// etcd's checks are in another order each time.
	lines := strings.Split(string(body), "\n")
	slices.Sort(lines)
	return response.Status + strings.Join(lines, "\n")
}
