package main

import (
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A small space of names and passwords, in which what one op does concerns many others.
var (
	users     = []string{"root", "ann", "bob", "cert"}
	roles     = []string{"root", "r", "s", "t"}
	passwords = []string{"a", "b"}
)

// missing is a name that no user and no role ever has.
const missing = "missing"

// longPassword has more bytes than bcrypt reads.
const longPassword = "ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"

// generateAuth returns the sequence of a seed with users and roles: they are changed, and the calls of the other
// sequences are made as different users. Watches are begun and left at once: what becomes of one whose user loses the
// permission differs on purpose. Most sequences begin with the steps that enable auth, some of them left out.
func generateAuth(seed uint64, length int) []op {
	g := generator{newRand(seed ^ 0xa11)}
	ops := []op{asUser{nobody, unary(g.fill())}}
	for _, o := range g.enabling() {
		if !g.chance(12) {
			ops = append(ops, asUser{nobody, o})
		}
	}
	for len(ops) < length {
		next := op(asUser{g.user(), g.authOp()})
		for nearSizeLimit(next) || mayKillEtcd(next) || differsOnPurpose(next) {
			next = asUser{g.user(), g.authOp()}
		}
		ops = append(ops, next)
	}
	return ops[:length]
}

// enabling are the steps towards users with permissions.
func (g generator) enabling() []op {
	add := func(name string) op { return authCall(&pb.AuthUserAddRequest{Name: name, Password: "a"}) }
	grant := func(user, role string) op {
		return authCall(&pb.AuthUserGrantRoleRequest{User: user, Role: role})
	}
	ops := []op{
		add("root"), grant("root", "root"), add("ann"), add("bob"),
		authCall(&pb.AuthRoleAddRequest{Name: "r"}), authCall(&pb.AuthRoleAddRequest{Name: "s"}),
	}
	for range 6 {
		ops = append(ops, g.grantPermission())
	}
	ops = append(ops, grant("ann", "r"), grant("bob", "s"), grant("bob", "r"), authCall(&pb.AuthEnableRequest{}))
	for _, user := range []string{"root", "ann", "bob"} {
		ops = append(ops, login{user, "a"})
	}
	return ops
}

// user is who makes a call: mostly one that may do something.
func (g generator) user() string {
	return pick(g, []choice[string]{
		{38, func() string { return "root" }},
		{30, func() string { return "ann" }},
		{22, func() string { return "bob" }},
		{3, func() string { return "cert" }},
		{5, func() string { return nobody }},
		{2, func() string { return forged }},
	})
}

func (g generator) userName() string {
	return pick(g, []choice[string]{
		{40, func() string { return one(g, users[1:]...) }},
		{6, func() string { return "root" }},
		{3, func() string { return missing }},
		{1, func() string { return "" }},
	})
}

func (g generator) roleName() string {
	return pick(g, []choice[string]{
		{40, func() string { return one(g, roles[1:]...) }},
		{4, func() string { return "root" }},
		{3, func() string { return missing }},
		{1, func() string { return "" }},
	})
}

func (g generator) password() string {
	if g.chance(30) {
		return one(g, "", longPassword, longPassword[:72])
	}
	return one(g, passwords...)
}

func (g generator) authOp() op {
	return pick(g, []choice[op]{
		{120, func() op { return unary(g.put()) }},
		{120, func() op { return ranged(g.rangeRequest()) }},
		{20, func() op { return rangeStream{g.streamRequest()} }},
		{30, func() op { return unary(g.fill()) }},
		{50, func() op { return unary(g.deleteRange()) }},
		{90, func() op { return unary(g.txn(2)) }},
		{10, func() op { return compaction{g.compaction()} }},
		{100, g.leaseCall},
		{30, func() op { key, end := g.interval(); return watchBegins{key, end} }},
		{30, g.maintenanceCall},
		{70, func() op { return login{g.userName(), g.password()} }},
		{130, g.usersOp},
		{120, g.rolesOp},
		{30, func() op { return authCall(&pb.AuthStatusRequest{}) }},
		{25, func() op { return authCall(&pb.AuthEnableRequest{}) }},
		{4, func() op { return authCall(&pb.AuthDisableRequest{}) }},
	})
}

func (g generator) leaseCall() op {
	return pick(g, []choice[op]{
		{30, func() op { return unary(&pb.LeaseGrantRequest{ID: g.leaseID(), TTL: longTTL + g.Int64N(100)}) }},
		{20, func() op { return unary(&pb.LeaseRevokeRequest{ID: one(g, 0, g.leaseID(), g.leaseID())}) }},
		{30, func() op {
			return unary(&pb.LeaseTimeToLiveRequest{ID: one(g, 0, g.leaseID(), g.leaseID()), Keys: !g.chance(4)})
		}},
		{10, func() op { return unary(&pb.LeaseLeasesRequest{}) }},
		{20, func() op { return keepAlive{one(g, 0, g.leaseID(), g.leaseID())} }},
	})
}

func (g generator) maintenanceCall() op {
	return pick(g, []choice[op]{
		{20, func() op { return unary(&pb.HashKVRequest{Revision: g.revision()}) }},
		{10, func() op { return unary(&pb.StatusRequest{}) }},
		{10, func() op { return unary(&pb.MemberListRequest{Linearizable: g.chance(2)}) }},
		{10, func() op { return unary(&pb.AlarmRequest{}) }},
		{5, func() op {
			return unary(&pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE})
		}},
		{5, func() op { return unary(&pb.DefragmentRequest{}) }},
		{5, func() op { return unary(&pb.MoveLeaderRequest{TargetID: one(g, 0, unknownMember, selfSymbol)}) }},
	})
}

func (g generator) usersOp() op {
	return pick(g, []choice[op]{
		{20, func() op { return authCall(g.userAdd()) }},
		{10, func() op { return authCall(&pb.AuthUserDeleteRequest{Name: g.userName()}) }},
		{10, func() op {
			return authCall(&pb.AuthUserChangePasswordRequest{Name: g.userName(), Password: g.password()})
		}},
		{40, func() op {
			return authCall(&pb.AuthUserGrantRoleRequest{User: g.userName(), Role: g.roleName()})
		}},
		{20, func() op {
			return authCall(&pb.AuthUserRevokeRoleRequest{Name: g.userName(), Role: g.roleName()})
		}},
		{15, func() op { return authCall(&pb.AuthUserGetRequest{Name: g.userName()}) }},
		{8, func() op { return authCall(&pb.AuthUserListRequest{}) }},
	})
}

func (g generator) userAdd() *pb.AuthUserAddRequest {
	r := &pb.AuthUserAddRequest{Name: g.userName(), Password: g.password()}
	if r.Name == "cert" || g.chance(12) {
		r.Options = &authpb.UserAddOptions{NoPassword: !g.chance(5)}
	}
	return r
}

func (g generator) rolesOp() op {
	return pick(g, []choice[op]{
		{20, func() op { return authCall(&pb.AuthRoleAddRequest{Name: g.roleName()}) }},
		{6, func() op { return authCall(&pb.AuthRoleDeleteRequest{Role: g.roleName()}) }},
		{45, g.grantPermission},
		{30, func() op {
			key, end := g.permitted()
			return authCall(&pb.AuthRoleRevokePermissionRequest{Role: g.roleName(), Key: key, RangeEnd: end})
		}},
		{15, func() op { return authCall(&pb.AuthRoleGetRequest{Role: g.roleName()}) }},
		{8, func() op { return authCall(&pb.AuthRoleListRequest{}) }},
	})
}

func (g generator) grantPermission() op {
	key, end := g.permitted()
	kind := one(g, authpb.READ, authpb.WRITE, authpb.READWRITE, authpb.READWRITE)
	r := &pb.AuthRoleGrantPermissionRequest{Name: g.roleName()}
	if !g.chance(40) {
		r.Perm = &authpb.Permission{PermType: kind, Key: key, RangeEnd: end}
	}
	return authCall(r)
}

// permitted are keys of a permission: often ones that permissions were given for before.
func (g generator) permitted() (key, end []byte) {
	if g.chance(3) {
		return g.interval()
	}
	both := one(g, [2]string{"a", "b"}, [2]string{"a/", "a0"}, [2]string{"b", ""}, [2]string{"b", "c"},
		[2]string{"n/3", "n/7"}, [2]string{"n/5", "\x00"}, [2]string{"\x00", "\x00"}, [2]string{"a/1", "n/4"})
	return []byte(both[0]), []byte(both[1])
}
