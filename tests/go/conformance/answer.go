package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// ttlTolerance is how many seconds two remaining times may be apart: the two systems are asked one op at a time,
// but on a busy machine one of them may answer late.
const ttlTolerance = 5

// answer is one thing a system said, in the form in which it is compared: a message with everything put aside
// that may differ, or a gRPC error, or a finding about the answer's own consistency.
type answer struct {
	message proto.Message
	code    codes.Code
	text    string
}

// replied makes an answer from what a call returned.
func replied(s *side, request, response proto.Message, err error) answer {
	if err != nil {
		return failed(err)
	}
	return answer{message: canonical(s, request, response)}
}

func failed(err error) answer {
	st := status.Convert(err)
	return answer{code: st.Code(), text: st.Message()}
}

// finding is something a system did that is wrong whatever the other one did; equal findings are still equal,
// so an etcd quirk seen on both sides is no difference.
func finding(format string, args ...any) answer {
	return answer{text: fmt.Sprintf(format, args...)}
}

// revision is the store revision the answer tells of, 0 when it does not.
func (a answer) revision() int64 {
	if with, ok := a.message.(interface{ GetHeader() *pb.ResponseHeader }); ok && a.code == codes.OK {
		return with.GetHeader().GetRevision()
	}
	return 0
}

func (a answer) String() string {
	if a.message == nil {
		return strings.TrimSpace(fmt.Sprintf("%v %s", a.code, a.text))
	}
	text, err := prototext.MarshalOptions{}.Marshal(a.message)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s{%s}", a.message.ProtoReflect().Descriptor().Name(), abbreviate(string(text)))
}

// longRun is the length from which a repeated character is only counted: large values are such runs.
const longRun = 20

func abbreviate(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		_, size := utf8.DecodeRuneInString(text)
		first := text[:size]
		rest := text[size:]
		n := 1
		for ; strings.HasPrefix(rest, first); n++ {
			rest = rest[size:]
		}
		if n > longRun {
			fmt.Fprintf(&out, "%s*%d", first, n)
		} else {
			out.WriteString(text[:n*size])
		}
		text = rest
	}
	return out.String()
}

// same compares two answers field for field.
func same(a, b answer) bool {
	if a.code != b.code || a.text != b.text || (a.message == nil) != (b.message == nil) {
		return false
	}
	if a.message == nil {
		return true
	}
	return proto.Equal(a.message, alignTTL(a.message, b.message))
}

// sameAll compares everything two systems answered to one op.
func sameAll(a, b []answer) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// alignTTL gives b the remaining time of a when the two are within tolerance; the remaining time is the only
// field of any response that depends on the clock and still says something.
func alignTTL(a, b proto.Message) proto.Message {
	left, ok := a.(*pb.LeaseTimeToLiveResponse)
	right, ok2 := b.(*pb.LeaseTimeToLiveResponse)
	if !ok || !ok2 || left.TTL < 0 || right.TTL < 0 {
		return b
	}
	if apart := left.TTL - right.TTL; apart > ttlTolerance || apart < -ttlTolerance {
		return b
	}
	aligned := proto.Clone(right).(*pb.LeaseTimeToLiveResponse)
	aligned.TTL = left.TTL
	return aligned
}
