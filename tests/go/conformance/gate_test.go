package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

var (
	bin   = flag.String("bin", cluster.StelePath(), "the server to test")
	seeds = flag.Int("seeds", gateSeeds, "how many seeds to play")
)

const (
	gateSeeds  = 20
	gateOps    = 400
	gateShrink = 2 * time.Minute
)

// mustReach are outcomes that the fixed seeds have to come to; without them agreement means little.
var mustReach = []string{
	"KV/Compact: CompactionResponse",
	"KV/Compact: OutOfRange etcdserver: mvcc: required revision is a future revision",
	"KV/Compact: OutOfRange etcdserver: mvcc: required revision has been compacted",
	"KV/Put: InvalidArgument etcdserver: request is too large",
	"KV/Put: InvalidArgument etcdserver: key not found",
	"KV/Put: NotFound etcdserver: requested lease not found",
	"KV/Range: InvalidArgument etcdserver: invalid sort option",
	"KV/Range: OutOfRange etcdserver: mvcc: required revision has been compacted",
	"KV/Range: more=true, 2 key-values",
	"KV/RangeStream: more=true, 2 key-values",
	"KV/RangeStream: Unimplemented RangeStream does not support custom sort orders",
	"KV/Txn: InvalidArgument etcdserver: duplicate key given in txn request",
	"KV/Txn: InvalidArgument etcdserver: too many operations in txn request",
	"KV/Txn: succeeded=false, 2 responses",
	"KV/Txn: succeeded=true, 2 responses",
	"Lease/LeaseGrant: FailedPrecondition etcdserver: lease already exists",
	"Lease/LeaseKeepAlive: LeaseKeepAliveResponse",
	"Lease/LeaseRevoke: LeaseRevokeResponse",
	"Maintenance/HashKV: HashKVResponse",
	"Maintenance/HashKV: OutOfRange etcdserver: mvcc: required revision has been compacted",
	`Watch: created=true canceled=true "mvcc: duplicate watch ID provided on the WatchStream", compacted=false, 0 events`,
	`Watch: created=false canceled=true "", compacted=false, 0 events`,
	`barrier: created=false canceled=true "", compacted=true, 0 events`,
	`barrier: created=false canceled=false "", compacted=false, 2 events`,
	"burst: DataLoss etcdserver: corrupt cluster",
	"burst: ResourceExhausted etcdserver: mvcc: database space exceeded",
	"grant: OutOfRange etcdserver: too large lease TTL",
	"let: more=false, 0 key-values",
}

func TestSystemsAnswerAlike(t *testing.T) {
	t.Parallel()
	tallies := make([]tally, *seeds)
	t.Run("seeds", func(t *testing.T) {
		for i := range tallies {
			tallies[i] = tally{}
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				expectAlike(t, uint64(i+1), tallies[i])
			})
		}
	})
	if *seeds < gateSeeds || t.Failed() {
		return
	}
	for _, outcome := range mustReach {
		if !slices.ContainsFunc(tallies, func(t tally) bool { return t[outcome] > 0 }) {
			t.Errorf("no op came to %q", outcome)
		}
	}
}

// expectAlike plays one seed, and looks for the few ops that matter if the systems differ.
func expectAlike(t *testing.T, seed uint64, reached tally) {
	t.Helper()
	sys := systems{reference: cluster.EtcdPath(), tested: *bin, tally: reached}
	expectOpsAlike(t, sys, seed, generate(seed, gateOps))
}

func expectOpsAlike(t *testing.T, sys systems, seed uint64, ops []op) {
	t.Helper()
	d, err := play(t.Context(), sys, ops)
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		return
	}
	t.Logf("seed %d, %d ops: the systems differ\n%s", seed, len(ops), d)
	sys.tally = nil
	shorter, last := shrink(t.Context(), sys, ops, d, gateShrink)
	t.Fatalf("%d ops are enough:\n%s\n%s", len(shorter), lines(shorter), last)
}

// TestWhatKillsEtcdIsSurvived sends the transactions that etcd panics of. The right answer is unknown;
// but there must be one, and the next request must be served.
func TestWhatKillsEtcdIsSurvived(t *testing.T) {
	if sameFile(*bin, cluster.EtcdPath()) {
		t.Skip("this is etcd")
	}
	s, err := newSide(t.Context(), "tested", *bin)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	deleteAll := requestOp(&pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	for _, put := range []*pb.PutRequest{
		{Key: []byte("k"), IgnoreValue: true}, {Key: []byte("k"), Value: []byte("v"), IgnoreLease: true},
	} {
		first := unary(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
		if a := s.do(t.Context(), first, revisions{})[0]; a.message == nil {
			t.Fatalf("put: %v", a)
		}
		txn := unary(&pb.TxnRequest{Success: []*pb.RequestOp{deleteAll, requestOp(put)}})
		if died(t.Context(), s, s.do(t.Context(), txn, revisions{})) {
			t.Fatalf("did not survive %v\n%s", txn, s.cluster.LogTails())
		}
		if a := s.do(t.Context(), unary(&pb.StatusRequest{}), revisions{})[0]; a.message == nil {
			t.Fatalf("after %v: %v", txn, a)
		}
	}
}

func TestASeedIsAlwaysTheSameSequence(t *testing.T) {
	if lines(generate(5, gateOps)) != lines(generate(5, gateOps)) {
		t.Fatal("the same seed gave two sequences")
	}
	if lines(generate(5, gateOps)) == lines(generate(6, gateOps)) {
		t.Fatal("two seeds gave the same sequence")
	}
}

func lines(ops []op) string {
	var out strings.Builder
	for _, o := range ops {
		out.WriteString(o.String() + "\n")
	}
	return out.String()
}
