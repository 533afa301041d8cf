package attack

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/wire"
)

// status is a whole call of a method that is answered at once.
func status(id uint32) []byte {
	head := wire.Append(nil, wire.Headers, wire.EndHeaders, id, wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...))
	return wire.Append(head, wire.Data, wire.EndStream, id, wire.Message(0, nil))
}

// get is a whole linearizable get of a key.
func get(id uint32, key string) []byte {
	return rangeCall(id, &pb.RangeRequest{Key: []byte(key)})
}

func rangeCall(id uint32, r *pb.RangeRequest) []byte { return call(id, "/etcdserverpb.KV/Range", r) }

// call is a whole call of a method.
func call(id uint32, method string, message proto.Message) []byte {
	request, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	head := wire.Append(nil, wire.Headers, wire.EndHeaders, id, wire.Block(wire.Request(method)...))
	return wire.Append(head, wire.Data, wire.EndStream, id, wire.Message(0, request))
}

// TestRapidReset begins calls and resets each at once, which is cheap for the client alone.
func TestRapidReset(t *testing.T) {
	underAttack(t, 48, func(at *target) {
		c := at.open()
		const batch = 100
		at.floodOf(c, func(n int) []byte {
			var data []byte
			for i := range batch {
				id := uint32(2*(n*batch+i) + 1)
				data = wire.AppendWord(append(data, get(id, "key")...), wire.RstStream, id, wire.Cancel)
			}
			return data
		}, sized(200, 10_000))
	})
}

// TestContinuationFlood never ends a header block. A header list of 16 MiB is permitted, as in etcd, and it is there twice:
// as it came, and decoded.
func TestContinuationFlood(t *testing.T) {
	block := wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...)
	fields := wire.Block(wire.Field{Name: "x-flood", Value: string(bytes.Repeat([]byte("v"), 16_000))})
	contents := map[string][]byte{"large": fields, "empty": nil, "small": wire.Block(wire.Field{Name: "x", Value: "y"})}
	for _, name := range []string{"large", "empty", "small"} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, 96, func(at *target) {
				c := at.open()
				frames := bytes.Repeat(wire.Append(nil, wire.Continuation, 0, 1, contents[name]), 16)
				err := c.Send(wire.Append(nil, wire.Headers, 0, 1, block))
				// Each 16 MB of headers, or as many frames, must be enough.
				for i := 0; err == nil && i < sized(20_000, 200_000); i++ {
					if err = c.Send(frames); len(contents[name]) > 1000 && i > 2000 {
						break
					}
				}
				at.mustEnd(c)
			})
		})
	}
}

// TestEmptyDataFlood sends frames of a stream that hold nothing, which no window limits.
func TestEmptyDataFlood(t *testing.T) {
	underAttack(t, 48, func(at *target) {
		c := at.open()
		head := wire.Append(nil, wire.Headers, wire.EndHeaders, 1, wire.Block(wire.Request("/etcdserverpb.Watch/Watch")...))
		if err := c.Send(head); err != nil {
			t.Fatal(err)
		}
		frames := bytes.Repeat(wire.Append(nil, wire.Data, 0, 1, nil), 1000)
		at.flood(c, frames, sized(500, 20_000))
	})
}

// TestHeaderBomb fills HPACK's table with one large field and repeats it, a byte each time.
func TestHeaderBomb(t *testing.T) {
	underAttack(t, 96, func(at *target) {
		c := at.open()
		// Literal with indexing: the field becomes the first of the dynamic table, index 62.
		field := append([]byte{0x40, 1, 'x'}, wire.AppendInteger(nil, 0, 7, 4000)...)
		field = append(field, bytes.Repeat([]byte("v"), 4000)...)
		block := slices.Concat(wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...), field)
		bomb := append(block, bytes.Repeat([]byte{0x80 | 62}, 10_000)...)
		nth := func(i int) []byte {
			return wire.Append(nil, wire.Headers, wire.EndHeaders|wire.EndStream, uint32(2*i+1), bomb)
		}
		at.floodOf(c, nth, sized(50, 500))
	})
}

// TestAnswersThatAreNotRead asks for acknowledgements and reads none of them: the server must stop reading, or hang up.
func TestAnswersThatAreNotRead(t *testing.T) {
	floods := map[string][]byte{
		"settings": wire.AppendSettings(nil, uint32(wire.EnablePush), 0),
		"pings":    wire.AppendPing(nil, 0, 7),
		"refusals": nil,
	}
	for _, name := range []string{"settings", "pings", "refusals"} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, 64, func(at *target) {
				c := at.open()
				c.SetReceiveBuffer(4096)
				c.SetDeadline(soon())
				frames, taken := bytes.Repeat(floods[name], 1000), 0
				for i := range sized(2000, 20_000) {
					if name == "refusals" {
						frames = refused(uint32(2*100*i + 1))
					}
					if err := c.Send(frames); err != nil {
						break
					}
					taken += len(frames)
				}
				at.logf("%d KiB taken", taken>>10)
			})
		})
	}
}

// refused is a hundred calls that are refused for their headers.
func refused(first uint32) []byte {
	var data []byte
	block := wire.Block(wire.Field{Name: ":method", Value: "POST"}, wire.Field{Name: ":bad", Value: ""})
	for i := range uint32(100) {
		data = wire.Append(data, wire.Headers, wire.EndHeaders, first+2*i, block)
	}
	return data
}

// TestPingFlood and its like read the answers, so that only the work counts.
func TestPingFlood(t *testing.T) {
	underAttack(t, 32, func(at *target) {
		c := at.open()
		at.flood(c, bytes.Repeat(wire.AppendPing(nil, 0, 7), 1000), sized(200, 10_000))
	})
}

func TestSettingsFlood(t *testing.T) {
	underAttack(t, 32, func(at *target) {
		c := at.open()
		frames := bytes.Repeat(wire.AppendSettings(nil, uint32(wire.InitialWindowSize), 100, uint32(wire.HeaderTableSize), 0), 1000)
		at.flood(c, frames, sized(200, 10_000))
	})
}

func TestPriorityFlood(t *testing.T) {
	underAttack(t, 32, func(at *target) {
		c := at.open()
		frame := wire.Append(nil, wire.Priority, 0, 12345, []byte{0, 0, 0, 1, 16})
		at.flood(c, bytes.Repeat(frame, 1000), sized(200, 10_000))
	})
}
