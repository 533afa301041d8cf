package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const (
	// No token is sent.
	nobody = ""
	// forged sends one that was never given.
	forged = "?"
)

// asUser makes a call with the token that a user has last been given, whatever has become of it.
type asUser struct {
	user string
	op   op
}

func (a asUser) String() string { return fmt.Sprintf("%s as %q", a.op, a.user) }

func (a asUser) needsBarrier() bool { return false }

func (a asUser) run(ctx context.Context, s *side, known revisions) []answer {
	token := s.tokens[a.user]
	if a.user == forged {
		token = "abcdefghijklmnop.1"
	}
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "token", token)
	}
	return a.op.run(ctx, s, known)
}

// login authenticates a user, and keeps the token.
type login struct{ user, password string }

func (l login) String() string { return fmt.Sprintf("Auth/Authenticate %q %q", l.user, l.password) }

func (l login) needsBarrier() bool { return false }

func (l login) run(ctx context.Context, s *side, _ revisions) []answer {
	request := &pb.AuthenticateRequest{Name: l.user, Password: l.password}
	response, err := pb.NewAuthClient(s.caller).Authenticate(ctx, request)
	if err == nil {
		s.tokens[l.user] = response.Token
	}
	return []answer{replied(s, request, response, err)}
}

// watchBegins creates a watch on a stream of its own, takes the first answer, and ends the stream.
type watchBegins struct{ key, end []byte }

func (w watchBegins) String() string { return fmt.Sprintf("Watch begin %q %q", w.key, w.end) }

func (w watchBegins) needsBarrier() bool { return false }

func (w watchBegins) run(ctx context.Context, s *side, _ revisions) []answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
	if err != nil {
		return []answer{failed(err)}
	}
	// A failed send ends the stream; receiving tells why.
	_ = stream.Send(createRequest(&pb.WatchCreateRequest{Key: w.key, RangeEnd: w.end}))
	response, err := stream.Recv()
	return []answer{replied(s, nil, response, err)}
}

// authCall is a call of the Auth service, named by the type of its request.
func authCall(request proto.Message) call {
	switch request.(type) {
	case *pb.AuthEnableRequest:
		return call{"Auth/AuthEnable", request, func() proto.Message { return &pb.AuthEnableResponse{} }}
	case *pb.AuthDisableRequest:
		return call{"Auth/AuthDisable", request, func() proto.Message { return &pb.AuthDisableResponse{} }}
	case *pb.AuthStatusRequest:
		return call{"Auth/AuthStatus", request, func() proto.Message { return &pb.AuthStatusResponse{} }}
	case *pb.AuthUserAddRequest:
		return call{"Auth/UserAdd", request, func() proto.Message { return &pb.AuthUserAddResponse{} }}
	case *pb.AuthUserGetRequest:
		return call{"Auth/UserGet", request, func() proto.Message { return &pb.AuthUserGetResponse{} }}
	case *pb.AuthUserListRequest:
		return call{"Auth/UserList", request, func() proto.Message { return &pb.AuthUserListResponse{} }}
	case *pb.AuthUserDeleteRequest:
		return call{"Auth/UserDelete", request, func() proto.Message { return &pb.AuthUserDeleteResponse{} }}
	case *pb.AuthUserChangePasswordRequest:
		return call{"Auth/UserChangePassword", request,
			func() proto.Message { return &pb.AuthUserChangePasswordResponse{} }}
	case *pb.AuthUserGrantRoleRequest:
		return call{"Auth/UserGrantRole", request, func() proto.Message { return &pb.AuthUserGrantRoleResponse{} }}
	case *pb.AuthUserRevokeRoleRequest:
		return call{"Auth/UserRevokeRole", request, func() proto.Message { return &pb.AuthUserRevokeRoleResponse{} }}
	case *pb.AuthRoleAddRequest:
		return call{"Auth/RoleAdd", request, func() proto.Message { return &pb.AuthRoleAddResponse{} }}
	case *pb.AuthRoleGetRequest:
		return call{"Auth/RoleGet", request, func() proto.Message { return &pb.AuthRoleGetResponse{} }}
	case *pb.AuthRoleListRequest:
		return call{"Auth/RoleList", request, func() proto.Message { return &pb.AuthRoleListResponse{} }}
	case *pb.AuthRoleDeleteRequest:
		return call{"Auth/RoleDelete", request, func() proto.Message { return &pb.AuthRoleDeleteResponse{} }}
	case *pb.AuthRoleGrantPermissionRequest:
		return call{"Auth/RoleGrantPermission", request,
			func() proto.Message { return &pb.AuthRoleGrantPermissionResponse{} }}
	case *pb.AuthRoleRevokePermissionRequest:
		return call{"Auth/RoleRevokePermission", request,
			func() proto.Message { return &pb.AuthRoleRevokePermissionResponse{} }}
	default:
		panic(fmt.Sprintf("no RPC of Auth is known for %T", request))
	}
}

// differsOnPurpose says whether what users are answered to an op differs on purpose, or is left to chance by etcd: a
// transaction without compares and operations, for which Stele needs a user; and a range that ends before it begins, for
// which it depends on the shape of etcd's tree of permissions who may ask. No key is in one.
func differsOnPurpose(o op) bool {
	switch o := o.(type) {
	case asUser:
		return differsOnPurpose(o.op)
	case rangeStream:
		return hasBackwardRange(o.request)
	case sortedPage:
		return hasBackwardRange(o.request)
	case watchBegins:
		return isBackward(o.key, o.end)
	case call:
		txn, ok := o.request.(*pb.TxnRequest)
		isEmpty := ok && len(txn.Compare)+len(txn.Success)+len(txn.Failure) == 0
		return isEmpty || strings.HasPrefix(o.method, "KV/") && hasBackwardRange(o.request)
	default:
		return false
	}
}

func hasBackwardRange(request proto.Message) bool {
	found := false
	eachMessage(request.ProtoReflect(), func(m proto.Message) {
		if m, ok := m.(interface {
			GetKey() []byte
			GetRangeEnd() []byte
		}); ok {
			found = found || isBackward(m.GetKey(), m.GetRangeEnd())
		}
	})
	return found
}

func isBackward(key, end []byte) bool {
	return len(end) > 0 && !bytes.Equal(end, []byte{0}) && bytes.Compare(key, end) >= 0
}
