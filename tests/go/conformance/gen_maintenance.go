package main

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// unknownMember is an id that no member has.
const unknownMember = 7

func (g generator) maintenanceOp() op {
	return pick(g, []choice[op]{
		{60, func() op { return unary(&pb.HashKVRequest{Revision: g.revision()}) }},
		{6, func() op { return unary(&pb.StatusRequest{}) }},
		{4, func() op { return unary(&pb.MemberListRequest{Linearizable: g.chance(2)}) }},
		{4, func() op { return unary(&pb.AlarmRequest{}) }},
		{10, g.alarmed},
		{2, func() op { return unary(&pb.DefragmentRequest{}) }},
		{2, func() op { return unary(&pb.MoveLeaderRequest{TargetID: one(g, 0, unknownMember, selfSymbol)}) }},
	})
}

// alarmed raises an alarm, asks a few things that it may forbid, and disarms it.
func (g generator) alarmed() op {
	kind := one(g, pb.AlarmType_NOSPACE, pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT, pb.AlarmType_NONE)
	member := one(g, selfSymbol, selfSymbol, unknownMember)
	alarm := func(action pb.AlarmRequest_AlarmAction) op {
		return unary(&pb.AlarmRequest{Action: action, MemberID: member, Alarm: kind})
	}
	ops := burst{alarm(pb.AlarmRequest_ACTIVATE), unary(&pb.AlarmRequest{}), unary(&pb.StatusRequest{})}
	for range 2 + g.IntN(4) {
		ops = append(ops, pick(g, []choice[op]{
			{3, func() op { return unary(g.put()) }},
			{2, func() op { return unary(g.txn(1)) }},
			{2, func() op { return unary(g.deleteRange()) }},
			{1, func() op { return unary(g.rangeRequest()) }},
			{1, func() op { return unary(&pb.LeaseGrantRequest{ID: g.leaseID(), TTL: longTTL}) }},
			{1, func() op { return unary(&pb.LeaseRevokeRequest{ID: g.leaseID()}) }},
		}))
	}
	return append(ops, alarm(pb.AlarmRequest_DEACTIVATE), unary(&pb.AlarmRequest{}))
}
