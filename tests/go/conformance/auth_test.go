package main

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

var authSeeds = flag.Int("auth-seeds", gateAuthSeeds, "how many seeds with users and roles to play")

const (
	gateAuthSeeds = 6
	gateAuthOps   = 400
)

// mustReachAuth are outcomes that the fixed seeds with users and roles have to come to.
var mustReachAuth = []string{
	"Auth/AuthDisable: AuthDisableResponse",
	"Auth/AuthEnable: AuthEnableResponse",
	"Auth/Authenticate: AuthenticateResponse",
	"Auth/Authenticate: InvalidArgument etcdserver: authentication failed, invalid user ID or password",
	"Auth/RoleAdd: FailedPrecondition etcdserver: role name already exists",
	"Auth/RoleAdd: PermissionDenied etcdserver: permission denied",
	"Auth/RoleGet: AuthRoleGetResponse",
	"Auth/RoleGrantPermission: AuthRoleGrantPermissionResponse",
	"Auth/RoleRevokePermission: AuthRoleRevokePermissionResponse",
	"Auth/RoleRevokePermission: FailedPrecondition etcdserver: permission is not granted to the role",
	"Auth/UserGrantRole: AuthUserGrantRoleResponse",
	"Auth/UserRevokeRole: AuthUserRevokeRoleResponse",
	"Auth/UserDelete: AuthUserDeleteResponse",
	"KV/DeleteRange: PermissionDenied etcdserver: permission denied",
	"KV/Put: InvalidArgument etcdserver: user name is empty",
	"KV/Put: PermissionDenied etcdserver: permission denied",
	"KV/Put: PutResponse",
	"KV/Put: Unauthenticated etcdserver: invalid auth token",
	"KV/Range: PermissionDenied etcdserver: permission denied",
	"KV/Range: more=true, 2 key-values",
	"KV/RangeStream: PermissionDenied etcdserver: permission denied",
	"KV/Txn: PermissionDenied etcdserver: permission denied",
	"KV/Txn: succeeded=true, 2 responses",
	"Lease/LeaseKeepAlive: LeaseKeepAliveResponse",
	"Lease/LeaseRevoke: PermissionDenied etcdserver: permission denied",
	"Maintenance/HashKV: PermissionDenied etcdserver: permission denied",
}

func TestSystemsWithUsersAnswerAlike(t *testing.T) {
	t.Parallel()
	tallies := make([]tally, *authSeeds)
	t.Run("seeds", func(t *testing.T) {
		for i := range tallies {
			tallies[i] = tally{}
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				sys := systems{
					reference: cluster.EtcdPath(), tested: *bin, tally: tallies[i], hasUsers: true,
				}
				expectOpsAlike(t, sys, uint64(i+1), generateAuth(uint64(i+1), gateAuthOps))
			})
		}
	})
	if *authSeeds < gateAuthSeeds || t.Failed() {
		return
	}
	for _, outcome := range mustReachAuth {
		if !slices.ContainsFunc(tallies, func(t tally) bool { return t[outcome] > 0 }) {
			t.Errorf("no op came to %q", outcome)
		}
	}
}

// TestAFalsifiedPermissionIsFound compares etcd with an etcd that seems to grant a permission of another kind, and to
// answer a call that it refuses.
func TestAFalsifiedPermissionIsFound(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(op, []answer) []answer{
		"another kind of permission": falsify(func(m *pb.AuthRoleGetResponse) bool {
			for _, perm := range m.Perm {
				perm.PermType ^= 1
			}
			return len(m.Perm) > 0
		}),
		"a refused call": func(_ op, answers []answer) []answer {
			answers = slices.Clone(answers)
			for i := range answers {
				if answers[i].text == "etcdserver: permission denied" {
					answers[i] = answer{message: &pb.PutResponse{}}
				}
			}
			return answers
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := systems{
				reference: cluster.EtcdPath(), tested: cluster.EtcdPath(), tamper: tamper, hasUsers: true,
			}
			d, err := play(t.Context(), sys, generateAuth(1, 200))
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				t.Fatal("the judge took it as equal")
			}
		})
	}
}

func TestASeedWithUsersIsAlwaysTheSameSequence(t *testing.T) {
	if lines(generateAuth(5, gateAuthOps)) != lines(generateAuth(5, gateAuthOps)) {
		t.Fatal("the same seed gave two sequences")
	}
	if lines(generateAuth(5, gateAuthOps)) == lines(generateAuth(6, gateAuthOps)) {
		t.Fatal("two seeds gave the same sequence")
	}
}
