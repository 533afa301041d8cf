package main

import (
	"bytes"
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// settleTies puts every sorted range in a response, also those within a transaction, into one order.
//
// etcd's sort is unstable, so key-values with equal sort targets come in any order: here they are put in key
// order. When a limit cuts through such a group it is open which of them stay, so of the cut group only the
// number and the sort target are kept.
func settleTies(request, response proto.Message) {
	switch response := response.(type) {
	case *pb.RangeResponse:
		if request, ok := request.(*pb.RangeRequest); ok {
			settleRange(request, response)
		}
	case *pb.TxnResponse:
		if request, ok := request.(*pb.TxnRequest); ok {
			settleTxn(request, response)
		}
	}
}

func settleTxn(request *pb.TxnRequest, response *pb.TxnResponse) {
	requests := request.Failure
	if response.Succeeded {
		requests = request.Success
	}
	// A different number of answers is a difference by itself; pair what there is.
	for i := range min(len(requests), len(response.Responses)) {
		if inner := response.Responses[i].GetResponseRange(); inner != nil {
			settleTies(requests[i].GetRequestRange(), inner)
		}
		if inner := response.Responses[i].GetResponseTxn(); inner != nil {
			settleTies(requests[i].GetRequestTxn(), inner)
		}
	}
}

func settleRange(request *pb.RangeRequest, response *pb.RangeResponse) {
	compare, ok := targetOrder[request.GetSortTarget()]
	if !ok {
		// By key there are no ties.
		return
	}
	// Also without a sort order: etcd then sorts ascending by any target but the key.
	for rest := response.Kvs; len(rest) > 0; {
		group := rest[:tieLength(rest, compare)]
		rest = rest[len(group):]
		if len(rest) == 0 && response.More {
			forgetIdentity(group, request.SortTarget)
			return
		}
		slices.SortFunc(group, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	}
}

var targetOrder = map[pb.RangeRequest_SortTarget]func(a, b *mvccpb.KeyValue) int{
	pb.RangeRequest_VERSION: func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) },
	pb.RangeRequest_CREATE:  func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) },
	pb.RangeRequest_MOD:     func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) },
	pb.RangeRequest_VALUE:   func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) },
}

// tieLength is how many key-values at the start are equal in the sort's eyes.
func tieLength(kvs []*mvccpb.KeyValue, compare func(a, b *mvccpb.KeyValue) int) int {
	n := 1
	for n < len(kvs) && compare(kvs[0], kvs[n]) == 0 {
		n++
	}
	return n
}

func forgetIdentity(group []*mvccpb.KeyValue, target pb.RangeRequest_SortTarget) {
	for i, kv := range group {
		kept := &mvccpb.KeyValue{}
		switch target {
		case pb.RangeRequest_VERSION:
			kept.Version = kv.Version
		case pb.RangeRequest_CREATE:
			kept.CreateRevision = kv.CreateRevision
		case pb.RangeRequest_MOD:
			kept.ModRevision = kv.ModRevision
		case pb.RangeRequest_VALUE:
			kept.Value = kv.Value
		}
		group[i] = kept
	}
}
