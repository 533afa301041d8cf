package main

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// A judge that always agrees would pass every gate. Here etcd is compared with an etcd whose answers are
// falsified in one small way, and the judge has to see it.
func TestFalsifiedAnswersAreFound(t *testing.T) {
	for name, tamper := range map[string]func(op, []answer) []answer{
		"a count off by one": falsify(func(m *pb.RangeResponse) bool { m.Count++; return m.Count > 1 }),
		"a lost event": falsify(func(m *pb.WatchResponse) bool {
			found := len(m.Events) > 0
			m.Events = m.Events[:max(0, len(m.Events)-1)]
			return found
		}),
		"another hash":       falsify(func(m *pb.HashKVResponse) bool { m.Hash ^= 1; return true }),
		"a missing response": func(o op, a []answer) []answer { return a[:0] },
		"another error text": func(o op, answers []answer) []answer {
			for i := range answers {
				if answers[i].message == nil {
					answers[i].text += "."
				}
			}
			return answers
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := systems{reference: cluster.EtcdPath(), tested: cluster.EtcdPath(), tamper: tamper}
			d, err := play(t.Context(), sys, generate(1, 200))
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				t.Fatal("the judge took it as equal")
			}
		})
	}
}

// falsify changes the first answer of a type in which there is something to change.
func falsify[M proto.Message](change func(M) bool) func(op, []answer) []answer {
	return func(_ op, answers []answer) []answer {
		answers = slices.Clone(answers)
		for i, a := range answers {
			if m, ok := a.message.(M); ok {
				changed := proto.Clone(m).(M)
				if change(changed) {
					answers[i].message = changed
					return answers
				}
			}
		}
		return answers
	}
}

func TestShrinkFindsTheFewOpsThatMatter(t *testing.T) {
	t.Parallel()
	sys := systems{reference: cluster.EtcdPath(), tested: cluster.EtcdPath()}
	sys.tamper = falsify(func(m *pb.RangeResponse) bool { m.More = len(m.Kvs) > 0; return m.More })
	ops := append(generate(1, 6), unary(&pb.PutRequest{Key: []byte("q")}), unary(&pb.StatusRequest{}), barrier{},
		unary(&pb.RangeRequest{Key: []byte("q")}), unary(&pb.MemberListRequest{}))
	d, err := play(t.Context(), sys, ops)
	if err != nil || d == nil {
		t.Fatalf("difference %v, error %v", d, err)
	}
	shorter, last := shrink(t.Context(), sys, ops, d, 2*time.Minute)
	// A range of any key that is there: the barrier's own key counts too.
	if len(shorter) > 2 || last == nil {
		t.Fatalf("shrunk only to %d ops:\n%s", len(shorter), lines(shorter))
	}
}
