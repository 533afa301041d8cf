package auth

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
)

func (s *server) locks() v3lockpb.LockClient { return v3lockpb.NewLockClient(s.conn) }

func (s *server) elections() v3electionpb.ElectionClient {
	return v3electionpb.NewElectionClient(s.conn)
}

func lock(as, name string, lease int64) step {
	return in("lock "+name+" as "+as, func(s *server) (*v3lockpb.LockResponse, error) {
		return s.locks().Lock(s.as(as), &v3lockpb.LockRequest{Name: []byte(name), Lease: lease})
	})
}

func unlock(as, key string) step {
	return in("unlock "+key+" as "+as, func(s *server) (*v3lockpb.UnlockResponse, error) {
		return s.locks().Unlock(s.as(as), &v3lockpb.UnlockRequest{Key: []byte(key)})
	})
}

// office is what a campaign won at each server, for the calls after it.
type office map[*server]*v3electionpb.LeaderKey

func (o office) campaign(as, name string, lease int64) step {
	return in("campaign for "+name+" as "+as, func(s *server) (*v3electionpb.CampaignResponse, error) {
		request := &v3electionpb.CampaignRequest{Name: []byte(name), Lease: lease, Value: []byte("v")}
		response, err := s.elections().Campaign(s.as(as), request)
		if err == nil {
			o[s] = proto.CloneOf(response.Leader)
		}
		return response, err
	})
}

func (o office) proclaim(as string) step {
	return in("proclaim as "+as, func(s *server) (*v3electionpb.ProclaimResponse, error) {
		return s.elections().Proclaim(s.as(as), &v3electionpb.ProclaimRequest{Leader: o[s], Value: []byte("w")})
	})
}

func (o office) resign(as string) step {
	return in("resign as "+as, func(s *server) (*v3electionpb.ResignResponse, error) {
		return s.elections().Resign(s.as(as), &v3electionpb.ResignRequest{Leader: o[s]})
	})
}

func leaderOf(as, name string) step {
	return in("leader of "+name+" as "+as, func(s *server) (*v3electionpb.LeaderResponse, error) {
		return s.elections().Leader(s.as(as), &v3electionpb.LeaderRequest{Name: []byte(name)})
	})
}

// TestLocksAndElectionsHaveTheRightsOfTheirCallerAsInEtcd plays them to both: ann may read and write [a, c).
func TestLocksAndElectionsHaveTheRightsOfTheirCallerAsInEtcd(t *testing.T) {
	t.Parallel()
	stele, etcd := signedPair(t, "simple")
	for _, s := range []*server{stele, etcd} {
		s.run(login("root", "r"), login("ann", "a"), userAdd("root", "bob", "b"), login("bob", "b"), login("ann", "a"),
			leaseGrant("root", 0xa), leaseGrant("root", 0xb))
	}
	// The key of a lock is its name and its lease.
	const anns, roots = "a/a", "x/b"
	ours, others := office{}, office{}
	compared(t, stele, etcd, "locks",
		lock("ann", "a", 0xa), unlock("", anns), unlock("?", anns), unlock("bob", anns), get("root", anns, ""), unlock("ann", anns),
		lock("root", "x", 0xb), unlock("ann", roots), get("root", roots, ""), unlock("root", roots),
		lock("", "a", 0xa), lock("?", "a", 0xa), lock("bob", "a", 0xa), lock("ann", "x", 0xa), get("root", "x", "y"))
	compared(t, stele, etcd, "elections",
		ours.campaign("ann", "b", 0xa), ours.proclaim("ann"), leaderOf("ann", "b"), others.campaign("root", "x", 0xb))
	for _, as := range []string{"", "?", "bob"} {
		compared(t, stele, etcd, "elections of others",
			ours.proclaim(as), ours.resign(as), leaderOf(as, "b"), office{}.campaign(as, "bb", 0xa))
	}
	compared(t, stele, etcd, "elections of root",
		others.proclaim("ann"), others.resign("ann"), leaderOf("ann", "x"), office{}.campaign("ann", "xx", 0xa),
		get("root", "a", "z"), others.proclaim("root"), leaderOf("root", "x"), others.resign("root"), ours.resign("ann"),
		get("root", "a", "z"))
	// Agreement alone would not show that anything was refused.
	for _, refused := range []step{lock("ann", "x", 0xa), unlock("ann", roots), leaderOf("ann", "x"), office{}.campaign("ann", "x", 0xa)} {
		_, err := refused.call(stele)
		expect(t, refused.what, err, denied)
	}
}
