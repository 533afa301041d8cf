package main

import (
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// longTTL outlives any sequence, so that no lease ends at a moment that differs between the systems.
const longTTL = 3_600

// expiringLease is a lease id that only expiry uses.
const expiringLease = 99

func (g generator) leaseID() int64 { return one(g, 1, 2, 3, 4, 7, -5, int64(math.MaxInt64)) }

func (g generator) leaseOp() op {
	return pick(g, []choice[op]{
		{35, func() op {
			return unary(&pb.LeaseGrantRequest{ID: g.leaseID(), TTL: longTTL + g.Int64N(100)})
		}},
		{4, func() op { return grantAndRevoke{&pb.LeaseGrantRequest{ID: 0, TTL: longTTL}} }},
		{6, func() op { return grantAndRevoke{&pb.LeaseGrantRequest{ID: 50, TTL: g.oddTTL()}} }},
		{12, func() op { return unary(&pb.LeaseRevokeRequest{ID: one(g, 0, g.leaseID(), g.leaseID())}) }},
		{20, func() op {
			return unary(&pb.LeaseTimeToLiveRequest{ID: one(g, 0, g.leaseID(), g.leaseID()), Keys: g.chance(2)})
		}},
		{8, func() op { return unary(&pb.LeaseLeasesRequest{}) }},
		{14, func() op { return keepAlive{one(g, 0, g.leaseID(), g.leaseID())} }},
		// An expiry takes seconds, which hundreds of other ops could use.
		{1, func() op { return expiry{expiringLease, []string{one(g, keys...), one(g, keys...)}} }},
	})
}

// oddTTL is too short, nothing, negative, at the limit or beyond.
func (g generator) oddTTL() int64 {
	const largest = 9_000_000_000
	return one[int64](g, 0, -1, 1, 5, largest, largest+1, math.MaxInt64, math.MinInt64)
}
