package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// putAside are the fields that may differ. All others of every response must be compared.
var putAside = map[string]bool{
	"ResponseHeader.cluster_id":       true,
	"ResponseHeader.member_id":        true,
	"ResponseHeader.raft_term":        true,
	"StatusResponse.dbSize":           true,
	"StatusResponse.dbSizeInUse":      true,
	"StatusResponse.raftIndex":        true,
	"StatusResponse.raftAppliedIndex": true,
	"StatusResponse.raftTerm":         true,
	"StatusResponse.storageVersion":   true,
	// Within tolerance; TestRemainingTimes looks at the rest.
	"LeaseTimeToLiveResponse.TTL": true,
}

func TestEveryFieldOfEveryResponseIsCompared(t *testing.T) {
	for _, response := range []proto.Message{
		&pb.RangeResponse{}, &pb.PutResponse{}, &pb.DeleteRangeResponse{}, &pb.CompactionResponse{},
		&pb.LeaseGrantResponse{}, &pb.LeaseRevokeResponse{}, &pb.LeaseTimeToLiveResponse{},
		&pb.LeaseLeasesResponse{}, &pb.LeaseKeepAliveResponse{}, &pb.AlarmResponse{}, &pb.StatusResponse{},
		&pb.HashKVResponse{}, &pb.DowngradeResponse{}, &pb.DefragmentResponse{}, &pb.MoveLeaderResponse{}, &pb.MemberListResponse{},
		&pb.WatchResponse{}, &pb.TxnResponse{},
	} {
		populate(response.ProtoReflect(), 3)
		for i := range scalars(response) {
			changed := proto.Clone(response)
			name := scalars(changed)[i].change()
			equal := same(replied(oneSide(), nil, response, nil), replied(oneSide(), nil, changed, nil))
			if equal != putAside[name] {
				t.Errorf("%T: a change of %s: taken as equal is %t", response, name, equal)
			}
		}
	}
}

func oneSide() *side {
	return &side{memberID: 5, cluster: &cluster.Cluster{Members: []*cluster.Member{{}}}}
}

// populate sets every field to something, to a depth.
func populate(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsList() && field.Message() != nil:
			if depth > 0 {
				populate(m.Mutable(field).List().AppendMutable().Message(), depth-1)
			}
		case field.IsList():
			m.Mutable(field).List().Append(scalar(field, 1))
		case field.Message() != nil:
			if depth > 0 {
				populate(m.Mutable(field).Message(), depth-1)
			}
		default:
			m.Set(field, scalar(field, 1))
		}
	}
}

// scalarField is one scalar in a message.
type scalarField struct {
	in    protoreflect.Message
	field protoreflect.FieldDescriptor
}

// change gives the scalar another value and returns the name of its field.
func (p scalarField) change() string {
	if p.field.IsList() {
		p.in.Get(p.field).List().Set(0, scalar(p.field, 2))
	} else {
		p.in.Set(p.field, scalar(p.field, 2))
	}
	return fmt.Sprintf("%s.%s", p.in.Descriptor().Name(), p.field.Name())
}

// scalars are all of a message and the messages within it, always in the same order.
func scalars(m proto.Message) []scalarField {
	var found []scalarField
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field, value := fields.Get(i), m.ProtoReflect().Get(fields.Get(i))
		switch {
		case !m.ProtoReflect().Has(field):
		case field.Message() == nil:
			found = append(found, scalarField{m.ProtoReflect(), field})
		case field.IsList():
			found = append(found, scalars(value.List().Get(0).Message().Interface())...)
		default:
			found = append(found, scalars(value.Message().Interface())...)
		}
	}
	return found
}

func scalar(field protoreflect.FieldDescriptor, n int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n == 1)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprint(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{byte(n)})
	default:
		panic(field.Kind())
	}
}

func TestErrorsAreComparedByCodeAndText(t *testing.T) {
	a := answer{code: codes.NotFound, text: "gone"}
	if !same(a, a) || same(a, answer{code: codes.NotFound, text: "away"}) || same(a, answer{code: codes.Internal, text: "gone"}) {
		t.Fatal("errors are equal when code and text are, and only then")
	}
	if same(a, answer{message: &pb.PutResponse{}}) {
		t.Fatal("an error is never a response")
	}
}

func TestRemainingTimes(t *testing.T) {
	at := func(ttl int64) answer { return answer{message: &pb.LeaseTimeToLiveResponse{TTL: ttl, ID: 1}} }
	for _, c := range []struct {
		a, b  int64
		equal bool
	}{{100, 100, true}, {100, 100 - ttlTolerance, true}, {100, 99 - ttlTolerance, false}, {-1, 0, false}, {0, -1, false}} {
		if same(at(c.a), at(c.b)) != c.equal {
			t.Errorf("%d and %d seconds: equal should be %t", c.a, c.b, c.equal)
		}
	}
}

func TestTiesAreASet(t *testing.T) {
	kv := func(key string, version int64) *mvccpb.KeyValue {
		return &mvccpb.KeyValue{Key: []byte(key), Version: version}
	}
	byVersion := &pb.RangeRequest{SortTarget: pb.RangeRequest_VERSION, SortOrder: pb.RangeRequest_ASCEND}
	for _, c := range []struct {
		name  string
		a, b  []*mvccpb.KeyValue
		more  bool
		equal bool
	}{
		{"a tie turned round", []*mvccpb.KeyValue{kv("a", 1), kv("b", 1)}, []*mvccpb.KeyValue{kv("b", 1), kv("a", 1)}, false, true},
		{"an order turned round", []*mvccpb.KeyValue{kv("a", 1), kv("b", 2)}, []*mvccpb.KeyValue{kv("b", 2), kv("a", 1)}, false, false},
		{"a tie with another key", []*mvccpb.KeyValue{kv("a", 1), kv("b", 1)}, []*mvccpb.KeyValue{kv("a", 1), kv("c", 1)}, false, false},
		{"a cut tie", []*mvccpb.KeyValue{kv("a", 1), kv("b", 2)}, []*mvccpb.KeyValue{kv("a", 1), kv("c", 2)}, true, true},
		{"a whole tie before a cut one", []*mvccpb.KeyValue{kv("a", 1), kv("b", 2)}, []*mvccpb.KeyValue{kv("c", 1), kv("b", 2)}, true, false},
	} {
		left := replied(oneSide(), byVersion, &pb.RangeResponse{Kvs: c.a, More: c.more}, nil)
		right := replied(oneSide(), byVersion, &pb.RangeResponse{Kvs: c.b, More: c.more}, nil)
		if same(left, right) != c.equal {
			t.Errorf("%s: equal should be %t", c.name, c.equal)
		}
	}
}

func TestLongRunsAreCounted(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "aab": "aab", "é\xffé": "é\xffé",
		"x" + strings.Repeat("é", longRun+1) + "y": fmt.Sprintf("xé*%dy", longRun+1),
		strings.Repeat("a", longRun):               strings.Repeat("a", longRun),
	} {
		if got := abbreviate(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}
