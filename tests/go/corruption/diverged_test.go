package corruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

const (
	initialGate    = "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true"
	compactionGate = "--feature-gates=CompactHashCheck=true"
)

// One member has another value than the others below the same revision. Each check finds it, and names it.
func TestAMemberThatDivergedIsFound(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{
		initialGate, "--corrupt-check-time=300ms", "--compact-hash-check-time=300ms",
	}})
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
