package corruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	initialGate    = "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true"
	compactionGate = "--feature-gates=CompactHashCheck=true"
)

// diverged are the errors of members one of which has another value.
var diverged = []string{"found data inconsistency with peer", "Detected compaction hash mismatch", "checkInitialHashKV failed"}

// One member has another value than the others below the same revision. Each check finds it, and names it.
func TestAMemberThatDivergedIsFound(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{
		initialGate, "--corrupt-check-time=300ms", "--compact-hash-check-time=300ms",
	}})
	c.AllowErrors(diverged...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first := cluster.ClientOf(t, patience, c.Members[0])
	for _, value := range []string{"what all were told", "1", "2", "3"} {
		if _, err := first.Put(ctx, "k"+value[:1], value); err != nil {
			t.Fatal(err)
		}
	}
	odd, id := follower(ctx, t, c, first)
	odd.Kill()
	rewriteLog(t, odd.DataDir, "what all were told", "what one was told!")

	// At its start: it does not serve.
	if err := odd.Start(); err != nil {
		t.Fatal(err)
	}
	if !odd.Ended(ctx) {
		t.Fatal("it runs")
	}
	log, err := odd.RunLog()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"found different hash values from remote peer", "found data inconsistency with peers"} {
		if !strings.Contains(log, text) {
			t.Errorf("it does not say %q:\n%s", text, log)
		}
	}
	odd.Kill()

	// Without that check: while it is away the others compact, and keep the hashes that are compared when it is back.
	var others []*cluster.Member
	for _, m := range c.Members {
		if m != odd {
			others = append(others, m)
		}
	}
	client := cluster.ClientOf(t, patience, others...)
	last, err := client.Put(ctx, "last", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(ctx, last.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	// At a compacted revision itself members answer with the hash that they kept, and nothing is compared periodically.
	if _, err := client.Put(ctx, "later", "1"); err != nil {
		t.Fatal(err)
	}
	odd.RemoveFlag(initialGate)
	odd.AddFlag(compactionGate)
	if err := odd.Start(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%x", id)
	waitForLine(ctx, t, others, `"found data inconsistency with peer"`)
	waitForLine(ctx, t, others, `"same compact revision then hashes must match"`, name)
	waitForLine(ctx, t, others, `"Detected compaction hash mismatch"`, name)
	alarms, err := client.AlarmList(ctx)
	if err != nil || len(alarms.Alarms) != 1 || alarms.Alarms[0].MemberID != id ||
		alarms.Alarms[0].Alarm != pb.AlarmType_CORRUPT {
		t.Errorf("alarms: %v, %v; the member is %s", alarms, err, name)
	}
	if _, err := client.Put(ctx, "last", "2"); !errors.Is(err, rpctypes.ErrCorrupt) {
		t.Errorf("a put with the alarm: %v", err)
	}
}

// The member that has another value leads. The alarm names it and not the others, by each check.
func TestALeaderThatDivergedIsNamed(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3})
	c.AllowErrors(diverged...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := cluster.ClientOf(t, patience, c.Members...)
	for _, value := range []string{"what all received", "1", "2", "3"} {
		if _, err := client.Put(ctx, "k"+value[:1], value); err != nil {
			t.Fatal(err)
		}
	}
	status, err := client.Status(ctx, c.Members[0].ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	// Who led asks for votes at once after a start, and the others do not in this test.
	var odd *cluster.Member
	for _, m := range c.Members {
		of, err := client.Status(ctx, m.ClientURL)
		if err != nil {
			t.Fatal(err)
		}
		if of.Header.MemberId == status.Leader {
			odd = m
			m.AddFlag("--corrupt-check-time=300ms")
		} else {
			m.AddFlag("--pre-vote=false")
			m.AddFlag("--election-timeout=50000")
		}
	}
	for _, m := range c.Members {
		m.Kill()
	}
	rewriteLog(t, odd.DataDir, "what all received", "what one received")
	// The leader begins to compare when it is there, and two members of which a third knows nothing are no quorum.
	for _, m := range c.Members {
		if m != odd {
			if err := m.Start(); err != nil {
				t.Fatal(err)
			}
			waitForLine(ctx, t, []*cluster.Member{m}, `"listening","flag":"listen-client-urls"`)
		}
	}
	if err := odd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		waitForAlarm(ctx, t, client, status.Leader)
		all := clientv3.AlarmMember{MemberID: status.Leader, Alarm: pb.AlarmType_CORRUPT}
		if _, err := client.AlarmDisarm(ctx, &all); err != nil {
			t.Fatal(err)
		}
	}
	// The periodic check of the leader.
	waitForLine(ctx, t, []*cluster.Member{odd}, `"same compact revision then hashes must match"`)
	waitForLine(ctx, t, []*cluster.Member{odd}, `"finished peer corruption check"`)
	waitForAlarm(ctx, t, client, status.Leader)
	for _, m := range c.Members {
		of, err := client.Status(ctx, m.ClientURL)
		if err != nil || of.Leader != status.Leader {
			t.Fatalf("status %v, %v; the odd member does not lead", of, err)
		}
		// Both connections to a peer may end and be made again at the start.
		if lines := linesWith(t, m, `"found data inconsistency with peer"`); lines == 0 || lines > 6 {
			t.Errorf("%s logs %d differences", m.Name, lines)
		}
	}
}

// waitForAlarm waits for the alarm CORRUPT of a member; no other member may have one.
func waitForAlarm(ctx context.Context, t *testing.T, client *clientv3.Client, id uint64) {
	t.Helper()
	for {
		alarms, err := client.AlarmList(ctx)
		if err == nil {
			for _, alarm := range alarms.Alarms {
				if alarm.MemberID != id || alarm.Alarm != pb.AlarmType_CORRUPT {
					t.Fatalf("alarms: %v; the odd member is %x", alarms, id)
				}
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no alarm: %v", err)
		case <-time.After(pollInterval):
		}
	}
}

// follower is a member that does not lead, which is not the first one, and its id.
func follower(ctx context.Context, t *testing.T, c *cluster.Cluster, client *clientv3.Client) (*cluster.Member, uint64) {
	t.Helper()
	status, err := client.Status(ctx, c.Members[0].ClientURL)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members[1:] {
		for _, listed := range list.Members {
			if listed.Name == m.Name && listed.ID != status.Leader {
				return m, listed.ID
			}
		}
	}
	t.Fatal("all lead")
	return nil, 0
}
