package main

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// txn is a transaction whose branches may hold transactions, to a depth.
func (g generator) txn(depth int) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for range one(g, 0, 1, 1, 1, 2, 3) {
		r.Compare = append(r.Compare, g.compare())
	}
	r.Success, r.Failure = g.branch(depth), g.branch(depth)
	if g.chance(40) {
		for range maxTxnOps + g.IntN(2) {
			r.Success = append(r.Success, requestOp(&pb.RangeRequest{Key: []byte("a"), Limit: 1}))
		}
	}
	return r
}

func (g generator) branch(depth int) []*pb.RequestOp {
	var ops []*pb.RequestOp
	for range one(g, 0, 1, 1, 2, 2, 3, 4) {
		ops = append(ops, g.branchOp(depth))
	}
	return ops
}

func (g generator) branchOp(depth int) *pb.RequestOp {
	nested := 0
	if depth > 0 {
		nested = 15
	}
	return pick(g, []choice[*pb.RequestOp]{
		{40, func() *pb.RequestOp { return requestOp(g.put()) }},
		{25, func() *pb.RequestOp { return requestOp(g.rangeInTxn()) }},
		{15, func() *pb.RequestOp { return requestOp(g.deleteRange()) }},
		{nested, func() *pb.RequestOp { return requestOp(g.txn(depth - 1)) }},
		{1, func() *pb.RequestOp { return &pb.RequestOp{} }},
	})
}

// rangeInTxn reads mostly at the newest revision: any other one easily fails the whole transaction.
func (g generator) rangeInTxn() *pb.RangeRequest {
	r := g.rangeRequest()
	if !g.chance(6) {
		r.Revision = 0
	}
	return r
}

func requestOp(request any) *pb.RequestOp {
	switch request := request.(type) {
	case *pb.RangeRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: request}}
	case *pb.PutRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: request}}
	case *pb.DeleteRangeRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: request}}
	case *pb.TxnRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: request}}
	default:
		panic("not a request that a transaction holds")
	}
}

func (g generator) compare() *pb.Compare {
	c := &pb.Compare{Result: pb.Compare_CompareResult(g.IntN(4)), Target: pb.Compare_CompareTarget(g.IntN(5))}
	c.Key = g.key()
	if g.chance(4) {
		c.Key, c.RangeEnd = g.intervalFrom(c.Key)
	}
	target := c.Target
	if g.chance(40) {
		// The operand of another target counts as zero.
		target = pb.Compare_CompareTarget(g.IntN(5))
	}
	switch target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: g.Int64N(4)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: g.comparedRevision()}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: g.comparedRevision()}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: []byte(one(g, values...))}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: one(g, 0, g.leaseID())}
	}
	if g.chance(100) {
		c.Result = 9
	}
	if g.chance(100) {
		c.Target = 9
	}
	return c
}

func (g generator) comparedRevision() int64 {
	return one(g, 0, nearCurrent(0), nearCurrent(-g.Int64N(20)))
}
