package main

import (
	"flag"
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

var gatewaySeeds = flag.Int("gateway-seeds", 3, "how many seeds to play over the JSON gateway")

// TestTheGatewayAnswersAlike plays the sequences of the other tests, with the unary calls as JSON to both gateways.
func TestTheGatewayAnswersAlike(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*gatewaySeeds) {
		// Other seeds than those that are played over gRPC.
		seed += 1000
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			sys := systems{reference: cluster.EtcdPath(), tested: *bin, overGateway: true}
			expectOpsAlike(t, sys, seed, generate(seed, gateOps))
		})
		t.Run(fmt.Sprint("users ", seed), func(t *testing.T) {
			t.Parallel()
			sys := systems{reference: cluster.EtcdPath(), tested: *bin, overGateway: true, hasUsers: true}
			expectOpsAlike(t, sys, seed, generateAuth(seed, gateAuthOps))
		})
	}
}

// TestAnotherShapeOfJSONIsFound compares etcd with an etcd whose gateway seems to write numbers of another kind.
func TestAnotherShapeOfJSONIsFound(t *testing.T) {
	t.Parallel()
	sys := systems{
		reference: cluster.EtcdPath(), tested: cluster.EtcdPath(), overGateway: true,
		tamper: falsify(func(m *pb.RangeResponse) bool {
			unknown := protowire.AppendTag(nil, shapeField, protowire.BytesType)
			m.ProtoReflect().SetUnknown(protowire.AppendString(unknown, "{}"))
			return true
		}),
	}
	d, err := play(t.Context(), sys, []op{unary(&pb.RangeRequest{Key: []byte("k")})})
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		t.Fatal("the judge took it as equal")
	}
}

func TestRequestsAreWrittenInSeveralForms(t *testing.T) {
	forms := map[string]bool{}
	for n := range byte(64) {
		request := &pb.RangeRequest{Key: []byte{n}, SortOrder: pb.RangeRequest_ASCEND, KeysOnly: true}
		text, err := jsonOf("/etcdserverpb.KV/Range", request)
		if err != nil {
			t.Fatal(err)
		}
		back := &pb.RangeRequest{}
		if err := decode(200, text, back); err != nil {
			t.Fatal(err)
		}
		forms[string(back.ProtoReflect().GetUnknown())] = true
		if back.ProtoReflect().SetUnknown(nil); !proto.Equal(request, back) {
			t.Fatalf("%v became %v", request, back)
		}
	}
	if len(forms) < 4 {
		t.Errorf("only %d forms", len(forms))
	}
}
