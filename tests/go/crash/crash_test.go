package crash

import (
	"context"
	"flag"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

var (
	bin     = flag.String("bin", cluster.StelePath(), "the server to test")
	rounds  = flag.Int("rounds", 8, "how often members are killed")
	writers = flag.Int("writers", 8, "how many clients write")
	seed    = flag.Uint64("seed", 1, "decides who is killed")
)

// longRounds are enough for kills to have interrupted every background task.
const longRounds = 50

func TestNothingAcknowledgedIsLost(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: members, Args: flags})
	o, err := run(context.Background(), c, plan{rounds: *rounds, writers: *writers, seed: *seed})
	if err != nil {
		t.Fatalf("after %v: %v", o, err)
	}
	if o.acknowledged < *rounds*writesBetween {
		t.Fatalf("too little was written to prove anything: %v", o)
	}
	if cluster.IsStele(*bin) {
		requireBackground(t, o)
	}
	t.Log(o)
}

// requireBackground fails a run that covered too few background tasks.
func requireBackground(t *testing.T, o outcome) {
	t.Helper()
	met := map[string]int{
		"compactions": o.compactions, "defragmentations": o.defragmentations,
		"checkpoints": o.checkpoints, "files emptied": o.relocations,
	}
	if *rounds >= longRounds {
		met["kills in a checkpoint"] = o.inCheckpoint
		met["kills while values were copied"] = o.inCopy
		met["kills between a copy and its checkpoint"] = o.inSwitch
	}
	for what, times := range met {
		if times == 0 {
			t.Errorf("no %s: %v", what, o)
		}
	}
}

// TestLossesAreSeen makes sure that the check can fail.
func TestLossesAreSeen(t *testing.T) {
	h := &history{key: "k", attempted: 7, acknowledged: 5, revision: 100, writes: 4, unknown: 3}
	holds := func(value string, revision, version int64) *clientv3.GetResponse {
		kv := &mvccpb.KeyValue{Key: []byte("k"), Value: []byte(value), ModRevision: revision, Version: version}
		return &clientv3.GetResponse{Kvs: []*mvccpb.KeyValue{kv}}
	}
	of := func(number int) string { return value("k", number) }
	for name, c := range map[string]struct {
		response *clientv3.GetResponse
		right    bool
	}{
		"the acknowledged value":                   {holds(of(5), 100, 5), true},
		"a later write of unknown outcome":         {holds(of(7), 101, 5), true},
		"an earlier unknown write that came late":  {holds(of(3), 102, 6), true},
		"the key is gone":                          {&clientv3.GetResponse{}, false},
		"an older value":                           {holds(of(4), 99, 4), false},
		"another value at the same revision":       {holds(of(6), 100, 5), false},
		"a value never written":                    {holds(of(8), 103, 6), false},
		"the acknowledged write took effect twice": {holds(of(5), 101, 6), false},
		"fewer versions than acknowledged writes":  {holds(of(7), 101, 3), false},
		"more versions than writes":                {holds(of(7), 101, 8), false},
		"no number":                                {holds("x", 101, 5), false},
		"a value without its end":                  {holds(of(5)[:1_000], 100, 5), false},
		"a value with a byte changed":              {holds(of(5)[:900]+"\x00\x00"+of(5)[902:], 100, 5), false},
		"another key's value":                      {holds(value("j", 5), 100, 5), false},
	} {
		if err := h.check(c.response); (err == nil) != c.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}
