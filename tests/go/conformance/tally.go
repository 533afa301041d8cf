package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// tally counts what the reference answered, by kind of op and outcome: a generator that no longer reaches a
// state is seen in it.
type tally map[string]int

func (t tally) count(o op, answers []answer) {
	if several, ok := o.(burst); ok {
		// The answers of a burst are distinguished by their types.
		for _, a := range answers {
			t["burst: "+outcome(a)]++
		}
		t[fmt.Sprintf("burst of %T", several[0])]++
		return
	}
	kind, _, _ := strings.Cut(o.String(), " ")
	for _, a := range answers {
		t[kind+": "+outcome(a)]++
	}
}

// outcome is an answer with all but its kind left out.
func outcome(a answer) string {
	switch m := a.message.(type) {
	case nil:
		return strings.TrimSpace(a.code.String() + " " + a.text)
	case *pb.TxnResponse:
		return fmt.Sprintf("succeeded=%t, %d responses", m.Succeeded, min(len(m.Responses), 2))
	case *pb.RangeResponse:
		return fmt.Sprintf("more=%t, %d key-values", m.More, min(len(m.Kvs), 2))
	case *pb.WatchResponse:
		return fmt.Sprintf("created=%t canceled=%t %q, compacted=%t, %d events",
			m.Created, m.Canceled, m.CancelReason, m.CompactRevision != 0, min(len(m.Events), 2))
	default:
		return string(m.ProtoReflect().Descriptor().Name())
	}
}

func (t tally) String() string {
	var out strings.Builder
	for _, what := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&out, "%8d %s\n", t[what], what)
	}
	return out.String()
}
