package main

import (
	"encoding/binary"
	"sort"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// sized are requests that contain some letters.
var sized = map[string]func(letters string) call{
	"a put": func(letters string) call {
		return unary(&pb.PutRequest{Key: []byte("key"), Value: []byte(letters)})
	},
	"a deletion": func(letters string) call { return unary(&pb.DeleteRangeRequest{Key: []byte(letters)}) },
	"a transaction": func(letters string) call {
		put := &pb.PutRequest{Key: []byte("key"), Value: []byte(letters)}
		return unary(&pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}}})
	},
	"a role": func(letters string) call { return authCall(&pb.AuthRoleAddRequest{Name: letters}) },
	"a permission": func(letters string) call {
		perm := &authpb.Permission{Key: []byte(letters), PermType: authpb.READ}
		return authCall(&pb.AuthRoleGrantPermissionRequest{Name: "root", Perm: perm})
	},
	"a user": func(letters string) call {
		return authCall(&pb.AuthUserAddRequest{Name: letters, Password: "secret"})
	},
	"a user without a password": func(letters string) call {
		options := &authpb.UserAddOptions{NoPassword: true}
		return authCall(&pb.AuthUserAddRequest{Name: letters, Password: "unused", Options: options})
	},
	"a password": func(letters string) call {
		return authCall(&pb.AuthUserChangePasswordRequest{Name: letters, Password: "secret"})
	},
}

// TestSizesAtTheLimitAreTheSame makes each request larger byte by byte, without a token and as root: both systems refuse it from
// the same size on, but for their ids, which begin with that of the member and so take 9 bytes or 10.
func TestSizesAtTheLimitAreTheSame(t *testing.T) {
	t.Parallel()
	var all []*side
	for name, binary := range map[string]string{"etcd": cluster.EtcdPath(), "stele": *bin} {
		s, err := newSide(t.Context(), name, binary, "--bcrypt-cost=4")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.close)
		all = append(all, s)
	}
	expectTheSameLimits(t, all, nobody)
	for _, s := range all {
		enableAuth(t, s)
	}
	expectTheSameLimits(t, all, "root")
}

func expectTheSameLimits(t *testing.T, all []*side, user string) {
	t.Helper()
	for name, request := range sized {
		var most []int
		for _, s := range all {
			most = append(most, largestAccepted(t, s, user, request)+idBytes(s.memberID))
		}
		if most[0] != most[1] {
			t.Errorf("%s by %q, and the id of the proposal: %s takes %d letters, %s %d",
				name, user, all[0].name, most[0], all[1].name, most[1])
		}
	}
}

// largestAccepted is how many letters the largest request has that is not too large.
func largestAccepted(t *testing.T, s *side, user string, request func(string) call) int {
	t.Helper()
	ctx := t.Context()
	if user != nobody {
		ctx = metadata.AppendToOutgoingContext(ctx, "token", s.tokens[user])
	}
	isTooLarge := func(letters int) bool {
		c := request(strings.Repeat("k", letters))
		err := s.conn.Invoke(ctx, "/etcdserverpb."+c.method, c.request, c.response())
		return status.Convert(err).Message() == "etcdserver: request is too large"
	}
	// What is around the letters is less than 300 bytes.
	const least = maxRequestBytes - 300
	largest := least + sort.Search(300, func(more int) bool { return isTooLarge(least + more) }) - 1
	if largest < least || largest >= maxRequestBytes-1 {
		t.Fatalf("%s does not begin to refuse near the limit", s.name)
	}
	for letters := largest - 12; letters <= largest+12; letters++ {
		if isTooLarge(letters) != (letters > largest) {
			t.Fatalf("%s takes %d letters, and %d are too large: %t", s.name, largest, letters, letters <= largest)
		}
	}
	return largest
}

// idBytes is how long the ids are, encoded, that a member gives its proposals: below 16 bits of its own they have the time.
func idBytes(memberID uint64) int {
	return len(binary.AppendUvarint(nil, memberID<<48|1<<47))
}

// enableAuth makes root, enables auth and keeps root's token.
func enableAuth(t *testing.T, s *side) {
	t.Helper()
	for _, request := range []proto.Message{
		&pb.AuthUserAddRequest{Name: "root", Password: "secret"}, &pb.AuthRoleAddRequest{Name: "root"},
		&pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}, &pb.AuthEnableRequest{},
	} {
		c := authCall(request)
		if err := s.conn.Invoke(t.Context(), "/etcdserverpb."+c.method, request, c.response()); err != nil {
			t.Fatalf("%s: %v", c.method, err)
		}
	}
	login{"root", "secret"}.run(t.Context(), s, revisions{})
	if s.tokens["root"] == "" {
		t.Fatal("root has no token")
	}
}
