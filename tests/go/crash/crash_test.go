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

func TestNothingAcknowledgedIsLost(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: members})
	o, err := run(context.Background(), c, plan{rounds: *rounds, writers: *writers, seed: *seed})
	if err != nil {
		t.Fatalf("after %v: %v", o, err)
	}
	if o.acknowledged < *rounds*writesBetween {
		t.Fatalf("too little was written to prove anything: %v", o)
	}
	t.Log(o)
}

// TestLossesAreSeen makes sure that the check can fail.
func TestLossesAreSeen(t *testing.T) {
	h := &history{key: "k", attempted: 7, acknowledged: 5, revision: 100, writes: 4, unknown: 3}
	holds := func(value string, revision, version int64) *clientv3.GetResponse {
		kv := &mvccpb.KeyValue{Key: []byte("k"), Value: []byte(value), ModRevision: revision, Version: version}
		return &clientv3.GetResponse{Kvs: []*mvccpb.KeyValue{kv}}
	}
	for name, c := range map[string]struct {
		response *clientv3.GetResponse
		right    bool
	}{
		"the acknowledged value":                   {holds("5", 100, 5), true},
		"a later write of unknown outcome":         {holds("7", 101, 5), true},
		"an earlier unknown write that came late":  {holds("3", 102, 6), true},
		"the key is gone":                          {&clientv3.GetResponse{}, false},
		"an older value":                           {holds("4", 99, 4), false},
		"another value at the same revision":       {holds("6", 100, 5), false},
		"a value nobody wrote":                     {holds("8", 103, 6), false},
		"the acknowledged write took effect twice": {holds("5", 101, 6), false},
		"fewer versions than acknowledged writes":  {holds("7", 101, 3), false},
		"more versions than writes":                {holds("7", 101, 8), false},
		"no number":                                {holds("x", 101, 5), false},
	} {
		if err := h.check(c.response); (err == nil) != c.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}
