package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/wire"
)

// gen makes the ops of a script, always the same from the same seed.
type gen struct{ *rand.Rand }

func pick[T any](g gen, of ...T) T { return of[g.IntN(len(of))] }

// often is true in so many of a hundred cases.
func (g gen) often(percent int) bool { return g.IntN(100) < percent }

func (g gen) bytes(length int) []byte {
	out := make([]byte, length)
	for i := range out {
		out[i] = byte(g.Uint32())
	}
	return out
}

// The keys of the values that both servers hold before the scripts begin, and which no script changes.
const (
	bigPrefix   = "big/"
	bigPrefixTo = "big0"
	bigValues   = 3
	bigBytes    = 30_000
)

// method is a method that can be called, with a request for it.
type method struct {
	path    string
	request proto.Message
	// messages is how many answers come before the stream would have to be ended by the client, 0 for unary methods.
	messages int
	// streams means that more than one request can be sent, and that the server waits for the end of them.
	streams bool
}

// methods are as many unlike ones as there are: read, write, local, over several messages, in both directions. None
// of them waits for other members or for a disk for long, and none has an answer that depends on the time.
func (g gen) method() method {
	key := fmt.Appendf(nil, "http2/%d", g.IntN(16))
	methods := []method{
		{path: "/etcdserverpb.KV/Range", request: &pb.RangeRequest{Key: []byte("none"), Serializable: true}},
		{path: "/etcdserverpb.KV/Range", request: &pb.RangeRequest{Key: []byte("none")}},
		{path: "/etcdserverpb.KV/Range", request: &pb.RangeRequest{
			Key: []byte(bigPrefix), RangeEnd: []byte(bigPrefixTo), Serializable: true}},
		{path: "/etcdserverpb.KV/Range", request: &pb.RangeRequest{}},
		{path: "/etcdserverpb.KV/Put", request: &pb.PutRequest{Key: key, Value: g.bytes(g.IntN(300))}},
		{path: "/etcdserverpb.KV/DeleteRange", request: &pb.DeleteRangeRequest{Key: key}},
		{path: "/etcdserverpb.Maintenance/Status", request: &pb.StatusRequest{}},
		{path: "/etcdserverpb.Lease/LeaseTimeToLive", request: &pb.LeaseTimeToLiveRequest{ID: 404}},
		{path: "/grpc.health.v1.Health/Check", request: &health.HealthCheckRequest{}},
		{path: "/grpc.health.v1.Health/Check", request: &health.HealthCheckRequest{Service: "none"}},
		{path: "/grpc.health.v1.Health/Watch", request: &health.HealthCheckRequest{}, messages: 1},
		{path: "/etcdserverpb.Lease/LeaseKeepAlive", request: &pb.LeaseKeepAliveRequest{ID: 404}, messages: 1, streams: true},
		{path: "/etcdserverpb.Watch/Watch", request: watchRequest(), messages: 1, streams: true},
		{path: "/etcdserverpb.KV/Nothing", request: &pb.RangeRequest{}},
		{path: "/unknown.Service/Method", request: &pb.RangeRequest{}},
	}
	return pick(g, methods...)
}

func watchRequest() *pb.WatchRequest {
	create := &pb.WatchCreateRequest{Key: []byte("watched")}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

// call is a valid call of some method.
func (g gen) call() call { return g.callOf(g.method()) }

func (g gen) callOf(m method) call {
	c := call{fields: wire.Request(m.path), resize: -1, headerPad: -1, dataPad: -1, messages: m.messages}
	c.body = wire.Message(0, marshal(m.request))
	c.note("", "%s", m.path)
	c.end = pick(g, withLastData, withLastData, withEmptyData)
	switch {
	case m.streams:
		// A watch stream goes on although its client has ended its side; one of keep-alives does not.
		if m.path != "/etcdserverpb.Watch/Watch" && g.often(50) {
			c.messages = 0
			break
		}
		c.end = never
	case m.messages == 0 && g.often(10):
		c.end = never
		c.note("", "not ended")
	}
	return c
}

func marshal(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return data
}

// shape changes how a call is put into frames, and nothing that its server should notice.
func (g gen) shape(c *call) {
	if g.often(60) {
		c.indexed = make([]bool, len(c.fields))
		for i := range c.indexed {
			c.indexed[i] = g.often(70)
		}
	}
	if g.often(15) {
		for range 1 + g.IntN(4) {
			c.blocks = append(c.blocks, g.IntN(40))
		}
		c.note("continuation", "header fragments %v", c.blocks)
	}
	if g.often(10) {
		c.headerPad = g.IntN(256)
		c.note("", "headers padded by %d", c.headerPad)
	}
	if g.often(10) {
		c.dataPad = g.IntN(256)
		c.note("", "data padded by %d", c.dataPad)
	}
	if g.often(8) {
		c.priority = g.bytes(5)
		// Of no stream that exists, mostly: the id of this one is known only later.
		c.priority[0] &= 0x7f
		c.note("", "priority")
	}
	if g.often(20) && len(c.body) > 0 {
		for range 1 + g.IntN(6) {
			c.cuts = append(c.cuts, g.IntN(12))
		}
		c.note("", "data frames %v", c.cuts)
	}
	if g.often(4) {
		c.resize = g.IntN(4097)
		// The encoder says it with the first field that it writes, and it has to be said before all fields.
		c.indexed = slices.Repeat([]bool{true}, len(c.fields))
		c.note("table", "table of %d", c.resize)
	}
}

func bigRange() *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(bigPrefix), RangeEnd: []byte(bigPrefixTo), Serializable: true}
}
