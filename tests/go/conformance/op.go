package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// op is one step of a sequence: it is sent to both systems and the answers are compared.
type op interface {
	fmt.Stringer
	// run sends the op to one side and returns all it answered, in comparable form. It never fails: an error
	// is an answer too.
	run(ctx context.Context, s *side, known revisions) []answer
	// needsBarrier says whether all watchers must have caught up before the op, since it would otherwise depend
	// on the clock what they still see.
	needsBarrier() bool
}

// call is any unary RPC.
type call struct {
	method   string
	request  proto.Message
	response func() proto.Message
}

func (c call) String() string { return fmt.Sprintf("%s %v", c.method, describe(c.request)) }

func (c call) needsBarrier() bool { return false }

func (c call) run(ctx context.Context, s *side, known revisions) []answer {
	request := resolved(c.request, known, s.memberID)
	response := c.response()
	err := s.caller.Invoke(ctx, "/etcdserverpb."+c.method, request, response)
	return []answer{replied(s, request, response, err)}
}

// unary names the RPC of a request by its type.
func unary(request proto.Message) call {
	switch request.(type) {
	case *pb.RangeRequest:
		return call{"KV/Range", request, func() proto.Message { return &pb.RangeResponse{} }}
	case *pb.PutRequest:
		return call{"KV/Put", request, func() proto.Message { return &pb.PutResponse{} }}
	case *pb.DeleteRangeRequest:
		return call{"KV/DeleteRange", request, func() proto.Message { return &pb.DeleteRangeResponse{} }}
	case *pb.TxnRequest:
		return call{"KV/Txn", request, func() proto.Message { return &pb.TxnResponse{} }}
	case *pb.LeaseGrantRequest:
		return call{"Lease/LeaseGrant", request, func() proto.Message { return &pb.LeaseGrantResponse{} }}
	case *pb.LeaseRevokeRequest:
		return call{"Lease/LeaseRevoke", request, func() proto.Message { return &pb.LeaseRevokeResponse{} }}
	case *pb.LeaseTimeToLiveRequest:
		return call{"Lease/LeaseTimeToLive", request, func() proto.Message { return &pb.LeaseTimeToLiveResponse{} }}
	case *pb.LeaseLeasesRequest:
		return call{"Lease/LeaseLeases", request, func() proto.Message { return &pb.LeaseLeasesResponse{} }}
	case *pb.AlarmRequest:
		return call{"Maintenance/Alarm", request, func() proto.Message { return &pb.AlarmResponse{} }}
	case *pb.StatusRequest:
		return call{"Maintenance/Status", request, func() proto.Message { return &pb.StatusResponse{} }}
	case *pb.HashKVRequest:
		return call{"Maintenance/HashKV", request, func() proto.Message { return &pb.HashKVResponse{} }}
	case *pb.DefragmentRequest:
		return call{"Maintenance/Defragment", request, func() proto.Message { return &pb.DefragmentResponse{} }}
	case *pb.MoveLeaderRequest:
		return call{"Maintenance/MoveLeader", request, func() proto.Message { return &pb.MoveLeaderResponse{} }}
	case *pb.DowngradeRequest:
		return call{"Maintenance/Downgrade", request, func() proto.Message { return &pb.DowngradeResponse{} }}
	case *pb.MemberListRequest:
		return call{"Cluster/MemberList", request, func() proto.Message { return &pb.MemberListResponse{} }}
	default:
		panic(fmt.Sprintf("no RPC is known for %T", request))
	}
}

// compaction compacts and then waits until the history is physically gone: while it is not, the hash that etcd
// gives for the compacted revision is another one. A second, physical compaction waits even when it is refused.
type compaction struct{ request *pb.CompactionRequest }

func (c compaction) String() string { return fmt.Sprintf("KV/Compact %v", describe(c.request)) }

// What watchers still receive from history depends on how far they have caught up.
func (c compaction) needsBarrier() bool { return true }

func (c compaction) run(ctx context.Context, s *side, known revisions) []answer {
	kv := pb.NewKVClient(s.caller)
	request := resolved(c.request, known, s.memberID)
	response, err := kv.Compact(ctx, request)
	answers := []answer{replied(s, request, response, err)}
	if err == nil && !request.Physical {
		request.Physical = true
		again, err := kv.Compact(ctx, request)
		answers = append(answers, replied(s, request, again, err))
	}
	return answers
}

// rangeStream asks the same range as a stream and as one answer. How a system cuts its chunks is its own
// business; merged they must equal the one answer.
type rangeStream struct{ request *pb.RangeRequest }

func (r rangeStream) String() string {
	return fmt.Sprintf("KV/RangeStream %v", describe(r.request))
}

func (r rangeStream) needsBarrier() bool { return false }

func (r rangeStream) run(ctx context.Context, s *side, known revisions) []answer {
	request := resolved(r.request, known, s.memberID)
	merged, err := mergeStream(ctx, pb.NewKVClient(s.conn), request)
	streamed := replied(s, request, merged, err)
	whole, err := pb.NewKVClient(s.conn).Range(ctx, request)
	ranged := replied(s, request, whole, err)
	answers := []answer{streamed, ranged}
	if streamed.message != nil && !same(streamed, ranged) {
		answers = append(answers, finding("the merged stream differs from the range"))
	}
	return answers
}

func mergeStream(ctx context.Context, kv pb.KVClient, request *pb.RangeRequest) (*pb.RangeResponse, error) {
	stream, err := kv.RangeStream(ctx, request)
	if err != nil {
		return nil, err
	}
	merged := &pb.RangeResponse{}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return merged, nil
		}
		if err != nil {
			return nil, err
		}
		proto.Merge(merged, chunk.GetRangeResponse())
	}
}

// burst is several ops that must not be torn apart, as an alarm and its disarming.
type burst []op

func (b burst) String() string {
	parts := make([]string, len(b))
	for i, o := range b {
		parts[i] = o.String()
	}
	return strings.Join(parts, "; ")
}

func (b burst) needsBarrier() bool { return true }

func (b burst) run(ctx context.Context, s *side, known revisions) []answer {
	var answers []answer
	for _, o := range b {
		answers = append(answers, o.run(ctx, s, known)...)
	}
	return answers
}
