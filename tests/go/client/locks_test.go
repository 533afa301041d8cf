package client_test

import (
	"context"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	epb "go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	lpb "go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

// Leases of the test, which have the same ids on every server.
const (
	one int64 = 0x100 + iota
	two
	three
	four
)

// side is a server, and what it answered.
type side struct {
	*testing.T
	client   *clientv3.Client
	lock     lpb.LockClient
	election epb.ElectionClient
	answers  []string
}

func sideOf(t *testing.T, binary string) *side {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary})
	client := connect(t, c.Endpoints()...)
	conn := client.ActiveConnection()
	s := &side{T: t, client: client, lock: lpb.NewLockClient(conn), election: epb.NewElectionClient(conn)}
	for lease := one; lease <= four; lease++ {
		must[*pb.LeaseGrantResponse](t)(pb.NewLeaseClient(conn).LeaseGrant(patiently(t), &pb.LeaseGrantRequest{ID: lease, TTL: 600}))
	}
	return s
}

// TestLocksAndElectionsAnswerAsInEtcd makes the same calls of both services to etcd and to the server.
func TestLocksAndElectionsAnswerAsInEtcd(t *testing.T) {
	var sides []*side
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		s := sideOf(t, binary)
		s.locks(patiently(t))
		s.elections(patiently(t))
		sides = append(sides, s)
	}
	for i, want := range sides[0].answers {
		if got := sides[1].answers[i]; got != want {
			t.Errorf("\netcd %s\ngot  %s", want, got)
		}
	}
}

// locks makes calls of the lock service.
func (s *side) locks(ctx context.Context) {
	s.note("first", s.take(ctx, "m", one))
	s.note("again", s.take(ctx, "m", one))
	s.note("no lease of that id", s.take(ctx, "m", 0x999))
	s.note("no name", s.take(ctx, "", two))
	s.note("unlock nothing", s.unlock(ctx, ""))
	s.note("unlock what is not there", s.unlock(ctx, "m/7"))
	second := s.queue(ctx, "m/101", func(ctx context.Context) string { return s.take(ctx, "m", two) })
	third := s.queue(ctx, "m/102", func(ctx context.Context) string { return s.take(ctx, "m", three) })
	leaving, leave := context.WithCancel(ctx)
	fourth := s.queue(leaving, "m/103", func(ctx context.Context) string { return s.take(ctx, "m", four) })
	leave()
	<-fourth
	s.until(ctx, "m/103", false)
	// The session of the second one ends while it waits.
	must[*clientv3.LeaseRevokeResponse](s.T)(s.client.Revoke(ctx, clientv3.LeaseID(two)))
	s.note("unlock the first", s.unlock(ctx, "m/100"))
	s.note("second, whose session ended", <-second)
	s.note("third", <-third)
	own, err := s.lock.Lock(ctx, &lpb.LockRequest{Name: []byte("own")})
	if err != nil {
		s.Fatal(err)
	}
	ttl := must[*clientv3.LeaseTimeToLiveResponse](s.T)(s.client.TimeToLive(ctx, s.leaseOf(ctx, string(own.Key))))
	s.note("lease of its own", fmt.Sprint(ttl.GrantedTTL))
}

// elections makes calls of the election service.
func (s *side) elections(ctx context.Context) {
	must[*pb.LeaseGrantResponse](s.T)(pb.NewLeaseClient(s.client.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: two, TTL: 600}))
	s.note("no leader", s.leader(ctx))
	observed := must[grpc.ServerStreamingClient[epb.LeaderResponse]](s.T)(s.election.Observe(ctx, &epb.LeaderRequest{Name: []byte("e")}))
	first := s.campaign(ctx, one, "a")
	s.note("first", first)
	s.note("observed", see(observed.Recv()))
	s.note("leader", s.leader(ctx))
	s.note("again with another value", s.campaign(ctx, one, "b"))
	s.note("observed", see(observed.Recv()))
	kv := must[*clientv3.GetResponse](s.T)(s.client.Get(ctx, "e/100")).Kvs[0]
	won := &epb.LeaderKey{Name: []byte("e"), Key: kv.Key, Rev: kv.CreateRevision, Lease: one}
	s.note("proclaim", s.proclaim(ctx, won, "c"))
	s.note("observed", see(observed.Recv()))
	second := s.queue(ctx, "e/101", func(ctx context.Context) string { return s.campaign(ctx, two, "d") })
	leaving, leave := context.WithCancel(ctx)
	third := s.queue(leaving, "e/102", func(ctx context.Context) string { return s.campaign(ctx, three, "e") })
	leave()
	<-third
	s.until(ctx, "e/102", false)
	s.note("proclaim without a leader", s.proclaim(ctx, nil, "x"))
	s.note("resign without a leader", s.resign(ctx, nil))
	s.note("resign", s.resign(ctx, won))
	s.note("second", <-second)
	s.note("observed", see(observed.Recv()))
	s.note("resign once more", s.resign(ctx, won))
	s.note("proclaim afterwards", s.proclaim(ctx, won, "y"))
	s.note("leader", s.leader(ctx))
}

func (s *side) note(what, answer string) { s.answers = append(s.answers, what+": "+answer) }

// queue makes a call that has to wait, and returns when its key is there.
func (s *side) queue(ctx context.Context, key string, call func(context.Context) string) <-chan string {
	s.Helper()
	answer := make(chan string, 1)
	go func() { answer <- call(ctx) }()
	s.until(ctx, key, true)
	return answer
}

// until waits until a key is there, or is gone.
func (s *side) until(ctx context.Context, key string, there bool) {
	s.Helper()
	waiting := patiently(s.T)
	for {
		found := must[*clientv3.GetResponse](s.T)(s.client.Get(waiting, key))
		if (found.Count == 1) == there {
			return
		}
	}
}

func (s *side) leaseOf(ctx context.Context, key string) clientv3.LeaseID {
	s.Helper()
	return clientv3.LeaseID(must[*clientv3.GetResponse](s.T)(s.client.Get(ctx, key)).Kvs[0].Lease)
}

func (s *side) take(ctx context.Context, name string, lease int64) string {
	r, err := s.lock.Lock(ctx, &lpb.LockRequest{Name: []byte(name), Lease: lease})
	return told(err, r.GetHeader(), string(r.GetKey()))
}

func (s *side) unlock(ctx context.Context, key string) string {
	r, err := s.lock.Unlock(ctx, &lpb.UnlockRequest{Key: []byte(key)})
	return told(err, r.GetHeader())
}

func (s *side) campaign(ctx context.Context, lease int64, value string) string {
	r, err := s.election.Campaign(ctx, &epb.CampaignRequest{Name: []byte("e"), Lease: lease, Value: []byte(value)})
	l := r.GetLeader()
	return told(err, r.GetHeader(), string(l.GetName()), string(l.GetKey()), l.GetRev(), l.GetLease())
}

func (s *side) proclaim(ctx context.Context, leader *epb.LeaderKey, value string) string {
	r, err := s.election.Proclaim(ctx, &epb.ProclaimRequest{Leader: leader, Value: []byte(value)})
	return told(err, r.GetHeader())
}

func (s *side) resign(ctx context.Context, leader *epb.LeaderKey) string {
	r, err := s.election.Resign(ctx, &epb.ResignRequest{Leader: leader})
	return told(err, r.GetHeader())
}

func (s *side) leader(ctx context.Context) string {
	return see(s.election.Leader(ctx, &epb.LeaderRequest{Name: []byte("e")}))
}

// see is what a leader's answer says.
func see(r *epb.LeaderResponse, err error) string {
	return told(err, r.GetHeader(), keyValue(r.GetKv()))
}

func keyValue(kv *mvccpb.KeyValue) string {
	return fmt.Sprintf("%s=%s created %d, modified %d, version %d, lease %x", kv.GetKey(), kv.GetValue(),
		kv.GetCreateRevision(), kv.GetModRevision(), kv.GetVersion(), kv.GetLease())
}

// told is an error, or the revision of the header and the rest of an answer.
func told(err error, header *pb.ResponseHeader, rest ...any) string {
	if err != nil {
		return fmt.Sprintf("%s %q", status.Code(err), status.Convert(err).Message())
	}
	return fmt.Sprint("at ", header.GetRevision(), " ", rest)
}
