package main

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// selfMember stands for "the member that was asked" in compared answers.
const selfMember = 1

// memberInText is the id of an alarm's member. Go's protobuf prints one or two spaces behind a field, by the build.
var memberInText = regexp.MustCompile(`memberID:\d+ +`)

// canonical is a copy of a response without what two correct systems may answer differently: ids of cluster and
// members, Raft's term and index, sizes of files, addresses, orders that etcd itself leaves to chance.
func canonical(s *side, request, response proto.Message) proto.Message {
	response = proto.Clone(response)
	settleTies(request, response)
	eachMessage(response.ProtoReflect(), func(m proto.Message) {
		switch m := m.(type) {
		case *pb.ResponseHeader:
			m.ClusterId, m.MemberId, m.RaftTerm = 0, 0, 0
		case *pb.Member:
			m.ID = s.nameMember(m.ID)
			m.PeerURLs, m.ClientURLs = s.nameURLs(m.PeerURLs), s.nameURLs(m.ClientURLs)
		case *pb.AlarmMember:
			m.MemberID = s.nameMember(m.MemberID)
		case *pb.StatusResponse:
			canonicalStatus(s, m)
		case *pb.AuthenticateResponse:
			m.Token = ""
		case *pb.LeaseLeasesResponse:
			slices.SortFunc(m.Leases, func(a, b *pb.LeaseStatus) int { return cmp.Compare(a.ID, b.ID) })
		case *pb.LeaseTimeToLiveResponse:
			slices.SortFunc(m.Keys, bytes.Compare)
		}
	})
	return response
}

func canonicalStatus(s *side, m *pb.StatusResponse) {
	m.DbSize, m.DbSizeInUse = 0, 0
	m.RaftIndex, m.RaftAppliedIndex, m.RaftTerm = 0, 0, 0
	m.Leader = s.nameMember(m.Leader)
	// etcd writes it some seconds after the start, when its version monitor comes by.
	m.StorageVersion = ""
	for i, text := range m.Errors {
		m.Errors[i] = memberInText.ReplaceAllString(text, "memberID:_ ")
	}
}

// eachMessage visits a message and all messages within it.
func eachMessage(m protoreflect.Message, visit func(proto.Message)) {
	visit(m.Interface())
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				eachMessage(value.List().Get(i).Message(), visit)
			}
		default:
			eachMessage(value.Message(), visit)
		}
		return true
	})
}
