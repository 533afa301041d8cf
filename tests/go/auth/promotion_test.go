package auth

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/status"
)

// TestPromotionAskedOfAFollowerNeedsRoot adds a learner and promotes it through a member that does not lead: the question
// goes on to the leader with the rights of who asked, and with no others.
func TestPromotionAskedOfAFollowerNeedsRoot(t *testing.T) {
	t.Parallel()
	quick := []string{"--heartbeat-interval=20", "--election-timeout=300"}
	servers := enabled(t, 3, quick...)
	leader, _ := servers[0].leader()
	follower := servers[0]
	for _, s := range servers {
		if _, own := s.leader(); own != leader {
			follower = s
		}
	}
	c := follower.cluster
	joiner, err := c.Layout(*bin, append(quick, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	add := &pb.MemberAddRequest{PeerURLs: []string{joiner.PeerURL}, IsLearner: true}
	_, err = follower.members().MemberAdd(follower.as("ann"), add)
	expect(t, "a learner of ann's", err, denied)
	var added *pb.MemberAddResponse
	until(t, "the learner is added", func() (err error) {
		added, err = follower.members().MemberAdd(follower.as("root"), add)
		return err
	})
	peers := map[string]string{}
	for _, m := range c.Members {
		peers[m.Name] = m.PeerURL
	}
	joiner.JoinExisting(peers)
	if err := joiner.Start(); err != nil {
		t.Fatal(err)
	}
	promote := func(as string) error {
		_, err := follower.members().MemberPromote(follower.as(as), &pb.MemberPromoteRequest{ID: added.Member.ID})
		return err
	}
	for as, text := range map[string]string{"ann": denied, "": noUser, "?": invalid} {
		expect(t, "a promotion by "+as, promote(as), text)
	}
	until(t, "root promotes it", func() error { return promote("root") })
	if err := joiner.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := must[*pb.MemberListResponse](t)(follower.members().MemberList(follower.as("ann"), &pb.MemberListRequest{Linearizable: true}))
	if len(found.Members) != 4 {
		t.Errorf("%d members", len(found.Members))
	}
	for _, member := range found.Members {
		if member.IsLearner {
			t.Errorf("%s is a learner still", member.Name)
		}
	}
}

// until repeats a call that may have to wait for another member, for as long as that may take.
func until(t *testing.T, what string, call func() error) {
	t.Helper()
	for deadline := time.Now().Add(callTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", what, status.Convert(err).Message())
		}
	}
}
