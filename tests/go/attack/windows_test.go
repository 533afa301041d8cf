package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/wire"
)

// soon bounds an attack that is meant to stop by itself, because the server does not read on.
func soon() time.Time { return time.Now().Add(time.Second) }

// large is how many different values of a MiB there are.
const large = 60

// mostForAnswers is what a client that does not take its answers may make the server hold: 16 MiB of answers and one
// more, and what the allocator loses.
const mostForAnswers = 64

// mostForRequests is what a client that does not complete its requests may: 64 MiB that wait, 16 MiB of messages that have
// room, as much again, since buffers that grow have up to twice the room that they use, and what the allocator loses.
const mostForRequests = 2*(64+16) + 16

// serverWindow is how much of a stream the server takes before it opens windows.
const serverWindow = 256 << 10

// putLarge writes different values of a MiB, and measures from then on.
func (at *target) putLarge() {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range large {
		if _, err := at.other.client.Put(ctx, largeKey(i), largeValue(i)); err != nil {
			at.t.Fatal(err)
		}
	}
	at.resetBaseline()
}

func largeKey(i int) string { return fmt.Sprintf("large-%03d", i%large) }

func largeValue(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), 1<<17) }

// expectReading fails the test unless the server reads on, and waits until another client's calls have been served behind
// those that were read.
func (at *target) expectReading(c *wire.Conn) {
	at.t.Helper()
	if err := c.Send(wire.AppendPing(nil, 0, lastPing)); err != nil {
		at.t.Fatal(err)
	}
	if v := judged(c); !v.goesOn {
		at.t.Errorf("the connection does not go on: %+v", v)
	}
	for range 20 {
		at.other.get()
	}
}

// TestAnswersWithoutAWindow asks for large values and gives no window for them, or a byte at a time.
func TestAnswersWithoutAWindow(t *testing.T) {
	calls := sized(600, 3000)
	for name, steps := range map[string]int{"no window": 0, "a byte at a time": sized(20_000, 1_000_000)} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, mostForAnswers, func(at *target) {
				at.putLarge()
				c := at.open(uint32(wire.InitialWindowSize), 0)
				for i := range calls {
					if err := c.Send(get(uint32(2*i+1), largeKey(i))); err != nil {
						t.Fatal(err)
					}
				}
				var data []byte
				for i := range steps {
					data = wire.AppendWord(data[:0], wire.WindowUpdate, uint32(2*(i%calls)+1), 1)
					if err := c.Send(data); err != nil {
						at.logf("ended after %d bytes", i)
						break
					}
				}
				at.expectReading(c)
			})
		})
	}
}

// TestListsWithoutAWindow asks for lists of 60 MiB, over one connection and over many, and takes nothing of them. Another
// client lists meanwhile.
func TestListsWithoutAWindow(t *testing.T) {
	for connections, lists := range map[int]int{1: sized(400, 1000), 10: sized(40, 200)} {
		t.Run(fmt.Sprintf("%d connections", connections), func(t *testing.T) {
			// Of each connection, 16 lists have begun, with 3 MiB each.
			underAttack(t, mostForAnswers+large+int64(connections-1)*52, func(at *target) {
				at.putLarge()
				for range connections {
					at.askInVain(lists, func(id uint32) []byte { return list(id, "large-") })
				}
				at.expectLists()
			})
		})
	}
}

// TestTransactionsWithoutAWindow asks for transactions that read 60 MiB, made on other threads, and takes nothing of them.
// Another client lists meanwhile.
func TestTransactionsWithoutAWindow(t *testing.T) {
	atOnce := int64(2 * runtime.NumCPU())
	// Each is whole in memory once, and while it is encoded twice.
	underAttack(t, mostForAnswers+(2*atOnce+1)*large, func(at *target) {
		at.putLarge()
		at.putSmall()
		at.askInVain(sized(100, 1000), readLarge)
		at.expectLists()
	})
}

// putSmall writes so many keys that ranges of transactions may be long.
func (at *target) putSmall() {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 10 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("small-%d-%d", i, j), ""))
		}
		if _, err := at.other.client.Txn(ctx).Then(ops...).Commit(); err != nil {
			at.t.Fatal(err)
		}
	}
}

// askInVain makes a call many times over a new connection that has no window for answers.
func (at *target) askInVain(times int, call func(id uint32) []byte) {
	at.t.Helper()
	c := at.open(uint32(wire.InitialWindowSize), 0)
	for i := range times {
		if err := c.Send(call(uint32(2*i + 1))); err != nil {
			at.t.Fatal(err)
		}
	}
	at.expectReading(c)
}

// expectLists lists as another client. The answer is in this process; in the server it is never as a whole.
func (at *target) expectLists() {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 3 {
		answer, err := at.other.client.Get(ctx, "large-", clientv3.WithPrefix(), clientv3.WithSerializable())
		if err != nil || len(answer.Kvs) != large {
			at.t.Errorf("another client's list: %v", err)
		}
	}
}

// readLarge is a whole call for a transaction that reads all large values, as old as this member may be.
func readLarge(id uint32) []byte {
	r := &pb.RangeRequest{Key: []byte("large-"), RangeEnd: []byte(clientv3.GetPrefixRangeEnd("large-")), Serializable: true}
	op := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
	return call(id, "/etcdserverpb.KV/Txn", &pb.TxnRequest{Success: []*pb.RequestOp{op}})
}

// list is a whole call for all keys with a prefix, which may be as old as this member is.
func list(id uint32, prefix string) []byte {
	return rangeCall(id, &pb.RangeRequest{Key: []byte(prefix), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefix)), Serializable: true})
}

// TestLargeAnswersAreNotRead gives windows, but does not read what comes.
func TestLargeAnswersAreNotRead(t *testing.T) {
	underAttack(t, mostForAnswers, func(at *target) {
		at.putLarge()
		c := at.open(uint32(wire.InitialWindowSize), 1<<31-1)
		c.SetReceiveBuffer(4096)
		c.SetDeadline(soon())
		data, calls := wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<31-1-65535), 0
		for calls < sized(600, 3000) {
			if err := c.Send(append(data, get(uint32(2*calls+1), largeKey(calls))...)); err != nil {
				break
			}
			data = nil
			calls++
		}
		at.logf("%d answers of a MiB asked for", calls)
		for range 20 {
			at.other.get()
		}
	})
}

// TestRequestsThatAreNotCompleted sends all but the last byte of large requests, on many streams of one connection: as far
// as windows let it, or without looking at them.
func TestRequestsThatAreNotCompleted(t *testing.T) {
	const streams, length = 400, 2<<20 - 100
	message := wire.Message(0, bytes.Repeat([]byte("v"), length))
	body := []byte(`{"key":"` + strings.Repeat("QUFB", length/4))
	heads := map[string][]wire.Field{
		"gRPC":    wire.Request("/etcdserverpb.KV/Put"),
		"gateway": {{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/v3/kv/put"}, {Name: ":authority", Value: "a"}},
	}
	bodies := map[string][]byte{"gRPC": message[:len(message)-1], "gateway": body}
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			underAttack(t, mostForRequests, func(at *target) {
				c := at.open()
				writeWithinWindows(at, c, streams, wire.Block(head...), bodies[name])
				at.expectReading(c)
			})
		})
	}
}

// writeWithinWindows begins streams and sends a body on each, 16 KiB on each stream in turn, as far as the server opens
// windows, and until it opens none any more.
func writeWithinWindows(at *target, c *wire.Conn, streams int, head, body []byte) {
	at.t.Helper()
	windows, sent := map[uint32]int{}, map[uint32]int{}
	for i := range streams {
		id := uint32(2*i + 1)
		windows[id] = serverWindow
		if err := c.Send(wire.Append(nil, wire.Headers, wire.EndHeaders, id, head)); err != nil {
			at.t.Fatal(err)
		}
	}
	// The server's first words open the window of the connection, and acknowledge our settings.
	windows[0] = 65535
	readWindows(at, c, windows)
	for {
		written := 0
		for id, window := range windows {
			part := min(16384, window, windows[0], len(body)-sent[id])
			if id == 0 || part <= 0 {
				continue
			}
			if err := c.Send(wire.Append(nil, wire.Data, 0, id, body[sent[id]:sent[id]+part])); err != nil {
				at.t.Fatal(err)
			}
			windows[0], windows[id], sent[id], written = windows[0]-part, window-part, sent[id]+part, written+part
		}
		// What the server has said when it has read all of this.
		if err := c.Send(wire.AppendSettings(nil)); err != nil {
			at.t.Fatal(err)
		}
		opened, refused := readWindows(at, c, windows)
		if written == 0 && opened == 0 && refused == 0 {
			break
		}
	}
	total := 0
	for _, bytes := range sent {
		total += bytes
	}
	at.logf("%d MiB sent on %d streams", total>>20, len(windows)-1)
	if len(windows)-1 == streams {
		at.t.Error("no request was refused, so the limit was not reached")
	}
}

// readWindows reads until the last settings are acknowledged: how many windows were opened, and how many streams were reset.
func readWindows(at *target, c *wire.Conn, windows map[uint32]int) (opened, refused int) {
	at.t.Helper()
	for {
		f, err := c.Next()
		switch {
		case err != nil:
			at.t.Fatal(err)
		case f.Type == wire.WindowUpdate:
			if _, open := windows[f.Stream]; open {
				windows[f.Stream] += int(binary.BigEndian.Uint32(f.Payload))
				opened++
			}
		case f.Type == wire.RstStream:
			delete(windows, f.Stream)
			refused++
		case f.Type == wire.GoAway:
			at.t.Fatalf("the server hung up: %d", f.Code())
		case f.Type == wire.Settings && f.Has(wire.Ack):
			return opened, refused
		}
	}
}

// TestWindowsThatOverflow opens the window past what it may be, and makes it negative and positive in turn.
func TestWindowsThatOverflow(t *testing.T) {
	underAttack(t, 48, func(at *target) {
		c := at.open()
		if err := c.Send(get(1, "key")); err != nil {
			t.Fatal(err)
		}
		frames := wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<31-1)
		for i := range 100 {
			frames = wire.AppendSettings(frames, uint32(wire.InitialWindowSize), []uint32{0, 1<<31 - 1}[i%2])
			frames = wire.AppendWord(frames, wire.WindowUpdate, 1, 1<<31-1)
		}
		at.flood(c, frames, sized(100, 10_000))
	})
}

// TestSlowBeginnings leaves connections at every point of their beginning. They cost little, and in the end they are
// closed.
func TestSlowBeginnings(t *testing.T) {
	greeting := string(wire.AppendSettings([]byte(wire.Preface)))
	head := wire.Append(nil, wire.Headers, 0, 1, wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...))
	beginnings := []string{
		"", "P", wire.Preface[:10], wire.Preface, greeting[:len(greeting)-1], greeting + string(head[:5]), greeting + string(head[:20]),
		greeting + string(head), "GET /health HTT",
	}
	underAttack(t, 48, func(at *target) {
		var held []*wire.Conn
		for i := range sized(450, 4500) {
			c, err := wire.Dial(at.address, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Send([]byte(beginnings[i%len(beginnings)])); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		at.other.get()
		if !*long {
			return
		}
		for i, c := range held[len(held)-len(beginnings):] {
			c.SetDeadline(time.Now().Add(2 * patience))
			if v := judged(c); v.late {
				at.t.Errorf("a connection that said %q and no more is not closed", fmt.Sprintf("%.30s", beginnings[(len(held)-len(beginnings)+i)%len(beginnings)]))
			}
		}
	})
}

// TestAWindowThatIsRaisedAgainAndAgain has many streams wait for windows, and raises the initial window in each of many
// settings. Another client's calls go on meanwhile.
func TestAWindowThatIsRaisedAgainAndAgain(t *testing.T) {
	streams := sized(20_000, 100_000)
	underAttack(t, int64(sized(256, 1024)), func(at *target) {
		c := at.open(uint32(wire.InitialWindowSize), 0)
		go judged(c)
		for i := range streams {
			if err := c.Send(status(uint32(2*i + 1))); err != nil {
				t.Fatal(err)
			}
		}
		slowest := time.Duration(0)
		for i := range sized(300, 3000) {
			if err := c.Send(wire.AppendSettings(nil, uint32(wire.InitialWindowSize), uint32(i/100+1))); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			at.other.get()
			slowest = max(slowest, time.Since(began))
		}
		at.logf("the slowest of another client's calls took %s", slowest.Round(time.Millisecond))
	})
}
