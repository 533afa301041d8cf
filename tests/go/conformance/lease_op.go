package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// keepAlive sends one keep-alive on a stream of its own.
type keepAlive struct{ id int64 }

func (k keepAlive) String() string { return fmt.Sprintf("Lease/LeaseKeepAlive ID:%d", k.id) }

func (k keepAlive) needsBarrier() bool { return false }

func (k keepAlive) run(ctx context.Context, s *side, _ revisions) []answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(s.caller).LeaseKeepAlive(ctx)
	if err != nil {
		return []answer{failed(err)}
	}
	request := &pb.LeaseKeepAliveRequest{ID: k.id}
	// A failed send ends the stream; receiving tells why.
	_ = stream.Send(request)
	response, err := stream.Recv()
	return []answer{replied(s, request, response, err)}
}

// grantAndRevoke is for leases that must not stay: those that would expire while the sequence runs, at a moment
// that is not the same on both sides, and those whose id the server chooses.
type grantAndRevoke struct{ request *pb.LeaseGrantRequest }

func (g grantAndRevoke) String() string {
	return fmt.Sprintf("grant and revoke %v", describe(g.request))
}

func (g grantAndRevoke) needsBarrier() bool { return false }

func (g grantAndRevoke) run(ctx context.Context, s *side, _ revisions) []answer {
	leases := pb.NewLeaseClient(s.caller)
	granted, err := leases.LeaseGrant(ctx, g.request)
	if err != nil {
		return []answer{failed(err)}
	}
	revoke := &pb.LeaseRevokeRequest{ID: granted.ID}
	revoked, err := leases.LeaseRevoke(ctx, revoke)
	if g.request.ID == 0 {
		granted.ID = min(granted.ID, 1)
	}
	return []answer{replied(s, g.request, granted, nil), replied(s, revoke, revoked, err)}
}

// expiry lets a short lease with keys end by itself. What remains is compared, not when.
type expiry struct {
	lease int64
	keys  []string
}

// expiryPoll is how often the keys are looked at while the lease runs out.
const expiryPoll = 50 * time.Millisecond

func (e expiry) String() string {
	return fmt.Sprintf("let lease %d with keys %q expire", e.lease, e.keys)
}

func (e expiry) needsBarrier() bool { return false }

func (e expiry) run(ctx context.Context, s *side, _ revisions) []answer {
	grant := &pb.LeaseGrantRequest{ID: e.lease, TTL: 1}
	response, err := pb.NewLeaseClient(s.caller).LeaseGrant(ctx, grant)
	answers := []answer{replied(s, grant, response, err)}
	if err != nil {
		return answers
	}
	kv := pb.NewKVClient(s.caller)
	for _, key := range e.keys {
		put := &pb.PutRequest{Key: []byte(key), Lease: e.lease, PrevKv: true}
		response, err := kv.Put(ctx, put)
		answers = append(answers, replied(s, put, response, err))
		if err != nil {
			// Without keys nothing shows the expiry; do not leave the lease to run out at its own time.
			_, _ = pb.NewLeaseClient(s.caller).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: e.lease})
			return answers
		}
	}
	return append(answers, e.awaitEnd(ctx, s, kv)...)
}

func (e expiry) awaitEnd(ctx context.Context, s *side, kv pb.KVClient) []answer {
	request := &pb.RangeRequest{Key: []byte(e.keys[0])}
	for {
		response, err := kv.Range(ctx, request)
		if err != nil || response.Count == 0 {
			return []answer{replied(s, request, response, err)}
		}
		select {
		case <-ctx.Done():
			return []answer{failed(ctx.Err())}
		case <-time.After(expiryPoll):
		}
	}
}
