package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// systems names the two binaries that are compared.
type systems struct {
	reference string
	tested    string
	// tamper falsifies the tested side's answers; only the judge's own tests set it.
	tamper func(op, []answer) []answer
	// tally, when not nil, counts what the reference answered.
	tally tally
	// overGateway sends unary calls as JSON to the gateways.
	overGateway bool
	// hasUsers is set for sequences that change users and roles. They have no watchers to wait for, and no client could
	// write for a barrier.
	hasUsers bool
}

// judge runs ops against a fresh member of each system and keeps what it knows of their common history.
type judge struct {
	reference *side
	tested    *side
	known     revisions
	tally     tally
	// selfCheck is set when both sides are the same server.
	selfCheck bool
	// referenceDied is the op that etcd itself did not survive: the sequence ends there.
	referenceDied string
}

// deathTimeout is how long a process that closed its connections has to end.
const deathTimeout = 20 * time.Second

// difference is the first op that the two systems answered differently.
type difference struct {
	index     int
	op        string
	reference []answer
	tested    []answer
	// logs is the end of the tested member's log when it did not survive the op.
	logs string
}

func (d *difference) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "op %d: %s\n", d.index, d.op)
	for i := range max(len(d.reference), len(d.tested)) {
		left, right := answerAt(d.reference, i), answerAt(d.tested, i)
		if left == right {
			fmt.Fprintf(&out, "  both:      %s\n", left)
			continue
		}
		fmt.Fprintf(&out, "  reference: %s\n  tested:    %s\n", left, right)
	}
	return out.String() + d.logs
}

func answerAt(answers []answer, i int) string {
	if i >= len(answers) {
		return "(nothing)"
	}
	return answers[i].String()
}

func newJudge(ctx context.Context, sys systems) (*judge, error) {
	var j judge
	errs := make([]error, 2)
	var args []string
	if sys.hasUsers {
		// The least cost, so that hashing takes no time.
		args = append(args, "--bcrypt-cost=4")
	}
	both(func() { j.reference, errs[0] = newSide(ctx, "reference", sys.reference, args...) },
		func() { j.tested, errs[1] = newSide(ctx, "tested", sys.tested, args...) })
	if sys.overGateway {
		for i, s := range []*side{j.reference, j.tested} {
			if errs[i] == nil {
				errs[i] = s.callOverGateway()
			}
		}
	}
	for _, err := range errs {
		if err != nil {
			j.close()
			return nil, err
		}
	}
	j.tested.tamper = sys.tamper
	j.known.current = 1
	j.tally = sys.tally
	j.selfCheck = sameFile(sys.reference, sys.tested)
	return &j, nil
}

func sameFile(a, b string) bool {
	left, err := os.Stat(a)
	if err != nil {
		return false
	}
	right, err := os.Stat(b)
	return err == nil && os.SameFile(left, right)
}

func (j *judge) close() {
	for _, s := range []*side{j.reference, j.tested} {
		if s != nil {
			s.close()
		}
	}
}

// step sends one op to both systems; nil means that they agree.
func (j *judge) step(ctx context.Context, o op) *difference {
	if o.needsBarrier() {
		if d := j.barrier(ctx); d != nil {
			return d
		}
	}
	return j.compare(ctx, o)
}

// barrier writes until no watcher waits for a later revision, and then lets all watchers catch up.
func (j *judge) barrier(ctx context.Context) *difference {
	for first := true; first || j.known.current < j.known.latestStart; first = false {
		before := j.known.current
		if d := j.compare(ctx, unary(&pb.PutRequest{Key: []byte(barrierKey)})); d != nil {
			return d
		}
		if j.known.current == before {
			return &difference{op: "barrier", logs: "the reference does not take writes"}
		}
	}
	return j.compare(ctx, catchUp{})
}

func (j *judge) compare(ctx context.Context, o op) *difference {
	var left, right []answer
	known := j.known
	both(func() { left = j.reference.do(ctx, o, known) }, func() { right = j.tested.do(ctx, o, known) })
	if died(ctx, j.reference, left) {
		return j.survived(ctx, o, left, right)
	}
	if !sameAll(left, right) && !hashedAtZero(left, right) {
		return &difference{op: o.String(), reference: left, tested: right, logs: j.deathNote()}
	}
	j.learn(o, left)
	if j.tally != nil {
		j.tally.count(o, left)
	}
	return nil
}

// hashedAtZero says whether the reference answered a HashKV with the hash that it keeps of a compaction at 0, which it
// takes for that of the newest revision from then on. The tested system is to hash.
func hashedAtZero(left, right []answer) bool {
	if len(left) != 1 || len(right) != 1 {
		return false
	}
	hash, ok := left[0].message.(*pb.HashKVResponse)
	return ok && hash.HashRevision == 0 && right[0].code == codes.OK
}

// learn follows the reference's history.
func (j *judge) learn(o op, answers []answer) {
	for _, a := range answers {
		j.known.current = max(j.known.current, a.revision())
	}
	if as, ok := o.(asUser); ok {
		o = as.op
	}
	switch o := o.(type) {
	case compaction:
		if answers[0].code == codes.OK {
			j.known.compacted = j.known.resolve(o.request.Revision)
		}
	case watchCreate:
		start := j.known.resolve(o.request.StartRevision)
		j.known.latestStart = max(j.known.latestStart, start)
	}
}

// survived decides on an op that the reference died of. It has no answer to compare with then; but what is fatal
// for etcd must not be for the tested system.
func (j *judge) survived(ctx context.Context, o op, left, right []answer) *difference {
	j.referenceDied = o.String()
	if j.selfCheck || !died(ctx, j.tested, right) {
		return nil
	}
	return &difference{op: o.String(), reference: left, tested: right, logs: "both died\n" + j.deathNote()}
}

// died says whether a side's process ended in an op. A refused connection may be seen before the end is.
func died(ctx context.Context, s *side, answers []answer) bool {
	// A finding names a watch stream that ended before a barrier.
	cut := func(a answer) bool {
		return a.code == codes.Unavailable || strings.Contains(a.text, "code = Unavailable")
	}
	if !slices.ContainsFunc(answers, cut) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deathTimeout)
	defer cancel()
	return s.cluster.Members[0].Ended(ctx)
}

func (j *judge) deathNote() string {
	if j.tested.cluster.Members[0].Running() {
		return ""
	}
	return "the tested member is dead\n" + j.tested.cluster.LogTails()
}

// both runs two functions at the same time and waits for both.
func both(a, b func()) {
	var wait sync.WaitGroup
	wait.Go(a)
	b()
	wait.Wait()
}

// play runs a whole sequence on fresh systems.
func play(ctx context.Context, sys systems, ops []op) (*difference, error) {
	j, err := newJudge(ctx, sys)
	if err != nil {
		return nil, err
	}
	defer j.close()
	if !sys.hasUsers {
		ops = append(ops[:len(ops):len(ops)], barrier{})
	}
	for i, o := range ops {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if d := j.step(ctx, o); d != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			d.index = i
			return d, nil
		}
		if j.referenceDied != "" {
			fmt.Printf("etcd itself did not survive op %d, the sequence ends: %s\n", i, j.referenceDied)
			return nil, nil
		}
	}
	return nil, nil
}
