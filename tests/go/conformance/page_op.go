package main

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// sortedPage is a range with a limit that is sorted by something other than the key. Which of the last equals
// a limit keeps is open; so each side is also asked without the limit, and the page must be part of that.
type sortedPage struct{ request *pb.RangeRequest }

func (p sortedPage) String() string { return fmt.Sprintf("KV/Range page %v", describe(p.request)) }

func (p sortedPage) needsBarrier() bool { return false }

func (p sortedPage) run(ctx context.Context, s *side, known revisions) []answer {
	kv := pb.NewKVClient(s.caller)
	request := resolved(p.request, known, s.memberID)
	page, err := kv.Range(ctx, request)
	answers := []answer{replied(s, request, page, err)}
	unlimited := proto.Clone(request).(*pb.RangeRequest)
	unlimited.Limit = 0
	all, wholeErr := kv.Range(ctx, unlimited)
	answers = append(answers, replied(s, unlimited, all, wholeErr))
	for _, one := range page.GetKvs() {
		if !slices.ContainsFunc(all.GetKvs(), func(kv *mvccpb.KeyValue) bool { return proto.Equal(kv, one) }) {
			answers = append(answers, finding("the page holds %q, which the whole range does not", one.Key))
		}
	}
	return answers
}

// ranged is the op for a range request.
func ranged(request *pb.RangeRequest) op {
	if _, ties := targetOrder[request.SortTarget]; ties && request.Limit > 0 {
		return sortedPage{request}
	}
	return unary(request)
}
