package auth

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// step is a call that both servers get; what they answer is compared, field by field.
type step struct {
	what string
	call func(s *server) (proto.Message, error)
}

// in makes a step of a typed call.
func in[M proto.Message](what string, call func(s *server) (M, error)) step {
	return step{what, func(s *server) (proto.Message, error) { return call(s) }}
}

func userAdd(as, name, password string) step {
	return in("user add "+name+" as "+as, func(s *server) (*pb.AuthUserAddResponse, error) {
		return s.auth().UserAdd(s.as(as), &pb.AuthUserAddRequest{Name: name, Password: password})
	})
}

func userAddWithout(as, name string) step {
	return in("user add without password "+name, func(s *server) (*pb.AuthUserAddResponse, error) {
		options := &authpb.UserAddOptions{NoPassword: true}
		return s.auth().UserAdd(s.as(as), &pb.AuthUserAddRequest{Name: name, Password: "ignored", Options: options})
	})
}

func userDelete(as, name string) step {
	return in("user delete "+name+" as "+as, func(s *server) (*pb.AuthUserDeleteResponse, error) {
		return s.auth().UserDelete(s.as(as), &pb.AuthUserDeleteRequest{Name: name})
	})
}

func passwd(as, name, password string) step {
	return in("password of "+name+" as "+as, func(s *server) (*pb.AuthUserChangePasswordResponse, error) {
		request := &pb.AuthUserChangePasswordRequest{Name: name, Password: password}
		return s.auth().UserChangePassword(s.as(as), request)
	})
}

func userGet(as, name string) step {
	return in("user get "+name+" as "+as, func(s *server) (*pb.AuthUserGetResponse, error) {
		return s.auth().UserGet(s.as(as), &pb.AuthUserGetRequest{Name: name})
	})
}

func userList(as string) step {
	return in("user list as "+as, func(s *server) (*pb.AuthUserListResponse, error) {
		return s.auth().UserList(s.as(as), &pb.AuthUserListRequest{})
	})
}

func grant(as, user, role string) step {
	return in("grant "+role+" to "+user+" as "+as, func(s *server) (*pb.AuthUserGrantRoleResponse, error) {
		return s.auth().UserGrantRole(s.as(as), &pb.AuthUserGrantRoleRequest{User: user, Role: role})
	})
}

func revoke(as, user, role string) step {
	return in("revoke "+role+" from "+user+" as "+as, func(s *server) (*pb.AuthUserRevokeRoleResponse, error) {
		return s.auth().UserRevokeRole(s.as(as), &pb.AuthUserRevokeRoleRequest{Name: user, Role: role})
	})
}

func roleAdd(as, name string) step {
	return in("role add "+name+" as "+as, func(s *server) (*pb.AuthRoleAddResponse, error) {
		return s.auth().RoleAdd(s.as(as), &pb.AuthRoleAddRequest{Name: name})
	})
}

func roleDelete(as, name string) step {
	return in("role delete "+name+" as "+as, func(s *server) (*pb.AuthRoleDeleteResponse, error) {
		return s.auth().RoleDelete(s.as(as), &pb.AuthRoleDeleteRequest{Role: name})
	})
}

func roleGet(as, name string) step {
	return in("role get "+name+" as "+as, func(s *server) (*pb.AuthRoleGetResponse, error) {
		return s.auth().RoleGet(s.as(as), &pb.AuthRoleGetRequest{Role: name})
	})
}

func roleList(as string) step {
	return in("role list as "+as, func(s *server) (*pb.AuthRoleListResponse, error) {
		return s.auth().RoleList(s.as(as), &pb.AuthRoleListRequest{})
	})
}

func permit(as, role string, kind authpb.Permission_Type, key, end string) step {
	what := "permit " + kind.String() + " [" + key + ", " + end + ") to " + role + " as " + as
	return in(what, func(s *server) (*pb.AuthRoleGrantPermissionResponse, error) {
		perm := &authpb.Permission{PermType: kind, Key: []byte(key), RangeEnd: []byte(end)}
		return s.auth().RoleGrantPermission(s.as(as), &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: perm})
	})
}

func unpermit(as, role, key, end string) step {
	what := "revoke [" + key + ", " + end + ") from " + role + " as " + as
	return in(what, func(s *server) (*pb.AuthRoleRevokePermissionResponse, error) {
		request := &pb.AuthRoleRevokePermissionRequest{Role: role, Key: []byte(key), RangeEnd: []byte(end)}
		return s.auth().RoleRevokePermission(s.as(as), request)
	})
}

func enable(as string) step {
	return in("enable as "+as, func(s *server) (*pb.AuthEnableResponse, error) {
		return s.auth().AuthEnable(s.as(as), &pb.AuthEnableRequest{})
	})
}

func disable(as string) step {
	return in("disable as "+as, func(s *server) (*pb.AuthDisableResponse, error) {
		return s.auth().AuthDisable(s.as(as), &pb.AuthDisableRequest{})
	})
}

func authStatus(as string) step {
	return in("status as "+as, func(s *server) (*pb.AuthStatusResponse, error) {
		return s.auth().AuthStatus(s.as(as), &pb.AuthStatusRequest{})
	})
}

func login(name, password string) step {
	return in("login of "+name, func(s *server) (*pb.AuthenticateResponse, error) { return s.login(name, password) })
}

func put(as, key string, change ...func(*pb.PutRequest)) step {
	request := &pb.PutRequest{Key: []byte(key), Value: []byte("v")}
	for _, change := range change {
		change(request)
	}
	return in("put "+request.String()+" as "+as, func(s *server) (*pb.PutResponse, error) {
		return s.kv().Put(s.as(as), request)
	})
}

func get(as, key, end string) step {
	return in("get ["+key+", "+end+") as "+as, func(s *server) (*pb.RangeResponse, error) {
		return s.kv().Range(s.as(as), &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
	})
}

func remove(as, key, end string, previous bool) step {
	return in("delete ["+key+", "+end+") as "+as, func(s *server) (*pb.DeleteRangeResponse, error) {
		return s.kv().DeleteRange(s.as(as), &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end), PrevKv: previous})
	})
}

func txn(as string, request *pb.TxnRequest) step {
	return in("txn "+request.String()+" as "+as, func(s *server) (*pb.TxnResponse, error) {
		return s.kv().Txn(s.as(as), request)
	})
}

func leaseGrant(as string, id int64) step {
	return in("lease grant as "+as, func(s *server) (*pb.LeaseGrantResponse, error) {
		return s.lease().LeaseGrant(s.as(as), &pb.LeaseGrantRequest{ID: id, TTL: 1000})
	})
}

func leaseRevoke(as string, id int64) step {
	return in("lease revoke as "+as, func(s *server) (*pb.LeaseRevokeResponse, error) {
		return s.lease().LeaseRevoke(s.as(as), &pb.LeaseRevokeRequest{ID: id})
	})
}

func leaseKeys(as string, id int64) step {
	return in("lease keys as "+as, func(s *server) (*pb.LeaseTimeToLiveResponse, error) {
		response, err := s.lease().LeaseTimeToLive(s.as(as), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
		if response != nil {
			response.TTL = 0
		}
		return response, err
	})
}

func leases(as string) step {
	return in("leases as "+as, func(s *server) (*pb.LeaseLeasesResponse, error) {
		return s.lease().LeaseLeases(s.as(as), &pb.LeaseLeasesRequest{})
	})
}

func keepAlive(as string, id int64) step {
	return in("keep alive as "+as, func(s *server) (*pb.LeaseKeepAliveResponse, error) {
		stream, err := s.lease().LeaseKeepAlive(s.as(as))
		if err != nil {
			return nil, err
		}
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
			return nil, err
		}
		return stream.Recv()
	})
}

func watchBegins(as, key, end string) step {
	return in("watch ["+key+", "+end+") as "+as, func(s *server) (*pb.WatchResponse, error) {
		return s.watch(as, &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)}).Recv()
	})
}

// forAnyUser are the calls that need a user; their answers are compared elsewhere.
func forAnyUser(as string) []step {
	return []step{
		in("status as "+as, func(s *server) (*pb.AlarmResponse, error) {
			_, err := s.maintenance().Status(s.as(as), &pb.StatusRequest{})
			return &pb.AlarmResponse{}, err
		}),
		in("member list as "+as, func(s *server) (*pb.AlarmResponse, error) {
			_, err := s.members().MemberList(s.as(as), &pb.MemberListRequest{Linearizable: true})
			return &pb.AlarmResponse{}, err
		}),
		in("alarms as "+as, func(s *server) (*pb.AlarmResponse, error) {
			_, err := s.maintenance().Alarm(s.as(as), &pb.AlarmRequest{})
			return &pb.AlarmResponse{}, err
		}),
	}
}

// maintenance are the calls that need a user or root; what they answer to who may is compared elsewhere.
func maintenance(as string) []step {
	refused := func(what string, call func(s *server) error) step {
		return step{what + " as " + as, func(s *server) (proto.Message, error) {
			return &pb.ResponseHeader{}, call(s)
		}}
	}
	return []step{
		refused("status", func(s *server) error {
			_, err := s.maintenance().Status(s.as(as), &pb.StatusRequest{})
			return err
		}),
		refused("hash", func(s *server) error {
			_, err := s.maintenance().Hash(s.as(as), &pb.HashRequest{})
			return err
		}),
		refused("hash of keys", func(s *server) error {
			_, err := s.maintenance().HashKV(s.as(as), &pb.HashKVRequest{})
			return err
		}),
		refused("defragment", func(s *server) error {
			_, err := s.maintenance().Defragment(s.as(as), &pb.DefragmentRequest{})
			return err
		}),
		refused("alarms", func(s *server) error {
			_, err := s.maintenance().Alarm(s.as(as), &pb.AlarmRequest{})
			return err
		}),
		refused("disarm", func(s *server) error {
			request := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE}
			_, err := s.maintenance().Alarm(s.as(as), request)
			return err
		}),
		refused("downgrade", func(s *server) error {
			request := &pb.DowngradeRequest{Action: pb.DowngradeRequest_VALIDATE, Version: "3.6.0"}
			_, err := s.maintenance().Downgrade(s.as(as), request)
			return err
		}),
		refused("snapshot", func(s *server) error {
			stream, err := s.maintenance().Snapshot(s.as(as), &pb.SnapshotRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}),
		refused("compact", func(s *server) error {
			_, err := s.kv().Compact(s.as(as), &pb.CompactionRequest{Revision: 1 << 40})
			return err
		}),
		refused("member list", func(s *server) error {
			_, err := s.members().MemberList(s.as(as), &pb.MemberListRequest{Linearizable: true})
			return err
		}),
		refused("move leader", func(s *server) error {
			_, err := s.maintenance().MoveLeader(s.as(as), &pb.MoveLeaderRequest{TargetID: 1})
			return err
		}),
		refused("member add", func(s *server) error {
			_, err := s.members().MemberAdd(s.as(as), &pb.MemberAddRequest{PeerURLs: []string{"http://127.0.0.1:1"}})
			return err
		}),
		refused("member update", func(s *server) error {
			_, err := s.members().MemberUpdate(s.as(as), &pb.MemberUpdateRequest{ID: 1, PeerURLs: []string{"http://127.0.0.1:1"}})
			return err
		}),
		refused("member remove", func(s *server) error {
			_, err := s.members().MemberRemove(s.as(as), &pb.MemberRemoveRequest{ID: 1})
			return err
		}),
		refused("member promote", func(s *server) error {
			_, err := s.members().MemberPromote(s.as(as), &pb.MemberPromoteRequest{ID: 1})
			return err
		}),
	}
}

func previous(r *pb.PutRequest) { r.PrevKv = true }

func attached(id int64) func(*pb.PutRequest) { return func(r *pb.PutRequest) { r.Lease = id } }

func rangeOp(key, end string) *pb.RequestOp {
	r := &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func putOp(key string, change ...func(*pb.PutRequest)) *pb.RequestOp {
	r := &pb.PutRequest{Key: []byte(key), Value: []byte("v")}
	for _, change := range change {
		change(r)
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}
}

func txnOp(inner *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: inner}}
}

// setUp makes the users and roles that the other steps use, before auth is enabled.
func setUp() []step {
	const read, write, both = authpb.Permission_READ, authpb.Permission_WRITE, authpb.Permission_READWRITE
	long := strings.Repeat("p", 73)
	return []step{
		authStatus(""), enable(""), login("root", "r"), userList(""), roleList(""),
		userAdd("", "", "p"), userAdd("", "root", "r"), userAdd("", "root", "r"), enable(""),
		grant("", "root", "root"), roleAdd("", "root"), grant("", "root", "root"), grant("", "root", "root"),
		userAdd("", "ann", "a"), userAdd("", "bob", ""), userAddWithout("", "cert"), userAdd("", "long", long),
		userAdd("", "long", long[:72]), passwd("", "long", long), passwd("", "eve", "x"), passwd("", "eve", ""),
		roleAdd("", ""), roleAdd("", "r"), roleAdd("", "r"), roleAdd("", "s"), grant("", "ann", "t"),
		grant("", "ann", "r"), grant("", "ann", "s"), grant("", "eve", "r"), userGet("", "ann"), userGet("", "eve"),
		permit("", "r", both, "a", "c"), permit("", "r", read, "c", "e"), permit("", "r", write, "w", ""),
		permit("", "r", read, "p", "\x00"), permit("", "r", read, "", "x"), permit("", "r", read, "b", "a"),
		permit("", "r", read, "b", "b"), permit("", "t", read, "b", ""), permit("", "r", read, "c", "f"),
		permit("", "r", both, "c", "e"), permit("", "r", read, "c", "e"), permit("", "root", read, "c", ""),
		roleGet("", "r"), roleGet("", "root"), roleGet("", "t"), unpermit("", "r", "c", "f"), unpermit("", "r", "c", "f"),
		unpermit("", "t", "c", ""), revoke("", "ann", "t"), revoke("", "ann", "s"), revoke("", "eve", "s"),
		roleDelete("", "t"), roleDelete("", "s"), userDelete("", "eve"), userList(""), roleList(""),
		leaseGrant("", 7), put("", "a"), put("", "x", attached(7)), authStatus(""), enable(""), enable(""), authStatus(""),
	}
}

// asAll are the calls that are played by every kind of caller.
func asAll(as string) []step {
	nested := &pb.TxnRequest{Success: []*pb.RequestOp{putOp("b"), txnOp(&pb.TxnRequest{Success: []*pb.RequestOp{rangeOp("x", "")}})}}
	compares := &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("x")}}}
	other := &pb.TxnRequest{Failure: []*pb.RequestOp{putOp("x")}}
	good := &pb.TxnRequest{Success: []*pb.RequestOp{putOp("b", previous), rangeOp("a", "e")}}
	readOnly := &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp("x", "")}}
	steps := []step{
		authStatus(as), put(as, "a"), put(as, "c"), put(as, "w"), put(as, "w", previous), put(as, "a", previous), put(as, ""),
		get(as, "a", ""), get(as, "a", "e"), get(as, "a", "f"), get(as, "c", "\x00"), get(as, "q", "\x00"), get(as, "w", ""),
		get(as, "o", ""), get(as, "\x00", "\x00"), remove(as, "b", "c", true), remove(as, "w", "", true),
		remove(as, "w", "", false), remove(as, "c", "d", false), txn(as, nested), txn(as, compares), txn(as, other),
		txn(as, good), txn(as, readOnly), leaseGrant(as, 8), put(as, "a", attached(8)),
		put(as, "a", attached(7)), leaseKeys(as, 7), leaseKeys(as, 8), leaseKeys(as, 99), keepAlive(as, 7), keepAlive(as, 8),
		leases(as), leaseRevoke(as, 7), leaseRevoke(as, 8), leaseRevoke(as, 99),
		watchBegins(as, "a", ""), watchBegins(as, "x", ""), watchBegins(as, "c", "\x00"), watchBegins(as, "q", "\x00"),
		userGet(as, "ann"), userGet(as, "root"), userGet(as, "eve"), userList(as), roleGet(as, "r"), roleGet(as, "root"),
		roleGet(as, "t"), roleList(as), passwd(as, "bob", "b"),
	}
	return append(steps, maintenance(as)...)
}

func steps() []step {
	all := setUp()
	all = append(all, login("ann", "a"), login("ann", "wrong"), login("eve", "x"), login("cert", ""), login("bob", ""),
		login("root", "r"), login("long", strings.Repeat("p", 72)), login("long", strings.Repeat("p", 80)),
		login("", ""))
	for _, as := range []string{"", "?", "bob", "ann"} {
		all = append(all, asAll(as)...)
		all = append(all, userAdd(as, "new", "n"), userDelete(as, "bob"), roleAdd(as, "new"), enable(as), disable(as),
			grant(as, "bob", "root"))
	}
	all = append(all, userDelete("root", "root"), roleDelete("root", "root"), revoke("root", "root", "root"),
		leaseKeys("root", 7), leases("root"), keepAlive("root", 7), leaseRevoke("root", 7), userGet("root", "ann"),
		roleGet("root", "r"), userList("root"), roleList("root"), get("root", "\x00", "\x00"), put("root", "x"))
	all = append(all, passwd("root", "ann", "b"), put("ann", "a"), login("ann", "a"), login("ann", "b"), put("ann", "a"),
		revoke("root", "ann", "r"), put("ann", "a"), get("ann", "a", ""), watchBegins("ann", "a", ""),
		grant("root", "ann", "r"), put("ann", "a"), roleDelete("root", "r"), put("ann", "a"), userGet("ann", "ann"),
		userDelete("root", "ann"), put("ann", "a"), login("ann", "b"))
	all = append(all, forAnyUser("ann")...)
	all = append(all, authStatus("root"), disable("root"), authStatus(""),
		put("", "a"), put("root", "a"), get("", "\x00", "\x00"), userList(""), login("root", "r"), enable(""),
		put("root", "a"), login("root", "r"), put("root", "a"), authStatus("root"))
	return all
}

// TestAuthIsTheSame plays the same calls to both.
func TestAuthIsTheSame(t *testing.T) {
	t.Parallel()
	tested, reference := start(t, *bin, 1)[0], start(t, cluster.EtcdPath(), 1)[0]
	seen := map[string]bool{}
	for i, step := range steps() {
		expected, found := outcome(step.call(reference)), outcome(step.call(tested))
		seen[expected] = true
		if found != expected {
			t.Errorf("step %d, %s\n  etcd  %s\n  Stele %s", i, step.what, expected, found)
		}
	}
	for _, must := range []string{
		`PermissionDenied "etcdserver: permission denied"`,
		`InvalidArgument "etcdserver: user name is empty"`,
		`Unauthenticated "etcdserver: invalid auth token"`,
		`InvalidArgument "etcdserver: authentication failed, invalid user ID or password"`,
		`Unknown "bcrypt: password length exceeds 72 bytes"`,
	} {
		if !seen[must] {
			t.Errorf("no step came to %s, so agreement means little", must)
		}
	}
}
