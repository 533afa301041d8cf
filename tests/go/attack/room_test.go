package attack

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"stele.test/wire"
)

// mostUntaken is how many bytes of answers may wait for a client in a connection before no other call of it begins.
const mostUntaken = 16 << 20

// answers reads what a server says, and decodes its headers.
type answers struct {
	*wire.Conn
	t     *testing.T
	table *hpack.Decoder
}

func answersOf(at *target, c *wire.Conn) *answers {
	return &answers{Conn: c, t: at.t, table: hpack.NewDecoder(4096, nil)}
}

// next reads a frame, with its fields if it has headers.
func (a *answers) next() (wire.Frame, map[string]string) {
	a.t.Helper()
	f, err := a.Next()
	switch {
	case err != nil:
		a.t.Fatal(err)
	case f.Type == wire.GoAway:
		a.t.Fatalf("the server hung up: %d", f.Code())
	case f.Type != wire.Headers:
		return f, nil
	}
	decoded, err := a.table.DecodeFull(f.Payload)
	if err != nil {
		a.t.Fatal(err)
	}
	fields := map[string]string{}
	for _, field := range decoded {
		fields[field.Name] = field.Value
	}
	return f, fields
}

func (a *answers) send(data []byte) {
	a.t.Helper()
	if err := a.Send(data); err != nil {
		a.t.Fatal(err)
	}
}

func endsStream(f wire.Frame) bool {
	return f.Has(wire.EndStream) && (f.Type == wire.Data || f.Type == wire.Headers)
}

// until reads what comes on a stream until so many bytes of DATA have come, or its end. It returns how many came, and
// the fields of the last headers.
func (a *answers) until(stream uint32, bytes int) (got int, last map[string]string) {
	a.t.Helper()
	for ended := false; got < bytes && !ended; {
		f, fields := a.next()
		if f.Stream != stream {
			continue
		}
		switch f.Type {
		case wire.Data:
			got += len(f.Payload)
		case wire.Headers:
			last = fields
		case wire.RstStream:
			a.t.Fatalf("stream %d was reset: %d", stream, f.Code())
		}
		ended = endsStream(f)
	}
	return got, last
}

// must fails the test unless a call succeeded.
func must[T any](t *testing.T) func(T, error) T {
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// heldForClients is what a member says that it holds for all its clients.
func (at *target) heldForClients() int64 {
	at.t.Helper()
	response, err := http.Get(at.member.ClientURL + "/metrics")
	if err != nil {
		at.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		text, found := strings.CutPrefix(lines.Text(), `stele_memory_accounted_bytes{component="clients"} `)
		if !found {
			continue
		}
		bytes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			at.t.Fatal(err)
		}
		return int64(bytes)
	}
	at.t.Fatal("the member does not say what it holds for clients")
	return 0
}

// renew is a request on a stream of renewals, which goes on.
func renew(stream uint32, lease clientv3.LeaseID) []byte {
	request, err := proto.Marshal(&pb.LeaseKeepAliveRequest{ID: int64(lease)})
	if err != nil {
		panic(err)
	}
	return wire.Append(nil, wire.Data, 0, stream, wire.Message(0, request))
}

// beginRenewals begins a stream of renewals, and opens the window of it alone.
func beginRenewals(stream uint32) []byte {
	head := wire.Block(wire.Request("/etcdserverpb.Lease/LeaseKeepAlive")...)
	data := wire.Append(nil, wire.Headers, wire.EndHeaders, stream, head)
	return wire.AppendWord(data, wire.WindowUpdate, stream, 1<<20)
}

// renewed reads until a renewal is answered. Nothing may come on the stream that waits.
func (a *answers) renewed(stream uint32, lease clientv3.LeaseID, waiting uint32) {
	a.t.Helper()
	var message []byte
	for len(message) < 5 || len(message) < 5+int(binary.BigEndian.Uint32(message[1:])) {
		f, fields := a.next()
		switch {
		case waiting > 0 && f.Stream == waiting:
			a.t.Fatalf("an ordinary call has begun although answers are not taken: %d %v", f.Type, fields)
		case f.Stream != stream:
		case f.Type == wire.Data:
			message = append(message, f.Payload...)
		case f.Type == wire.RstStream || endsStream(f):
			a.t.Fatalf("renewals have ended: %d %v", f.Type, fields)
		}
	}
	answer := pb.LeaseKeepAliveResponse{}
	if err := proto.Unmarshal(message[5:], &answer); err != nil {
		a.t.Fatal(err)
	}
	if answer.ID != int64(lease) || answer.TTL <= 0 {
		a.t.Fatalf("renewed: %v", &answer)
	}
}

// TestRenewalsDoNotWaitForAnswersThatAreNotTaken leaves so many answers that no call of the connection begins any more.
// Renewals begin, and go on. An ordinary call, whose own window is open too, begins when answers are taken or given up.
func TestRenewalsDoNotWaitForAnswersThatAreNotTaken(t *testing.T) {
	const calls = 40
	var releaseValues, releaseLists []byte
	releaseValues = wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<30)
	releaseValues = wire.AppendSettings(releaseValues, uint32(wire.InitialWindowSize), 8<<20)
	for i := range calls {
		releaseLists = wire.AppendWord(releaseLists, wire.RstStream, uint32(2*i+3), wire.Cancel)
	}
	for name, attack := range map[string]struct {
		call    func(id uint32, i int) []byte
		release []byte
	}{
		"values": {func(id uint32, i int) []byte { return get(id, largeKey(i)) }, releaseValues},
		"lists":  {func(id uint32, _ int) []byte { return list(id, "large-") }, releaseLists},
	} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, mostForAnswers+large, func(at *target) {
				at.putLarge()
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				lease := must[*clientv3.LeaseGrantResponse](t)(at.other.client.Grant(ctx, 600)).ID
				a := answersOf(at, at.open(uint32(wire.InitialWindowSize), 0))
				const early, ordinary, late = 1, 2*calls + 3, 2*calls + 5
				a.send(append(beginRenewals(early), renew(early, lease)...))
				a.renewed(early, lease, 0)
				for i := range calls {
					a.send(attack.call(uint32(2*i+3), i))
				}
				for at.heldForClients() < mostUntaken {
					if ctx.Err() != nil {
						t.Fatal("the answers that are not taken do not become more")
					}
					time.Sleep(10 * time.Millisecond)
				}
				asked := rangeCall(ordinary, &pb.RangeRequest{Key: []byte("key"), Serializable: true})
				a.send(wire.AppendWord(asked, wire.WindowUpdate, ordinary, 1<<20))
				a.send(renew(early, lease))
				a.renewed(early, lease, ordinary)
				a.send(append(beginRenewals(late), renew(late, lease)...))
				for range 3 {
					a.renewed(late, lease, ordinary)
					a.send(renew(late, lease))
				}
				a.send(attack.release)
				if _, said := a.until(ordinary, 1<<20); said["grpc-status"] != "0" {
					t.Errorf("the call that waited ended with %v", said)
				}
			})
		})
	}
}

// The requests that are sent as JSON, and how many of them may come at a time: for each there is room for the longest
// JSON of a message, 4 MiB, in 16 MiB.
const (
	jsonPuts   = 60
	jsonAtOnce = 4
)

// TestLargeJSONWaitsForRoom puts large values over one connection of the gateway, each but for its last byte first.
// If none waited for room, 80 MiB would be in the connection, which is more than it may hold. So few have room at a
// time, and the others wait until the last bytes have come of those. None is refused.
func TestLargeJSONWaitsForRoom(t *testing.T) {
	underAttack(t, mostForAnswers+large, func(at *target) {
		p := &jsonPutter{answers: answersOf(at, at.open()), windows: map[uint32]int{}, initial: 65535}
		p.windows[0] = 65535
		head := wire.Block(
			wire.Field{Name: ":method", Value: "POST"}, wire.Field{Name: ":scheme", Value: "http"},
			wire.Field{Name: ":path", Value: "/v3/kv/put"}, wire.Field{Name: ":authority", Value: "a"})
		for i := range jsonPuts {
			key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "json-%03d", i))
			value := base64.StdEncoding.EncodeToString([]byte(largeValue(i)))
			id := uint32(2*i + 1)
			p.puts = append(p.puts, &jsonPut{id: id, rest: fmt.Appendf(nil, `{"key":"%s","value":"%s"}`, key, value)})
			p.send(wire.Append(nil, wire.Headers, wire.EndHeaders, id, head))
		}
		most := 0
		for p.answered < jsonPuts {
			for p.almostSent() < min(jsonAtOnce, jsonPuts-p.answered) {
				if !p.sendParts() {
					p.read()
				}
			}
			// What windows the server opens, if it has read all of this, is not enough for another one.
			p.synchronize()
			for p.sendParts() {
				p.synchronize()
			}
			most = max(most, p.almostSent())
			before := p.answered + p.complete()
			for p.answered < before {
				p.read()
			}
		}
		if most != jsonAtOnce {
			t.Errorf("%d requests had room at a time", most)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for i := range jsonPuts {
			got := must[*clientv3.GetResponse](t)(at.other.client.Get(ctx, fmt.Sprintf("json-%03d", i)))
			if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != largeValue(i) {
				t.Errorf("the value of put %d is not there", i)
			}
		}
	})
}

// jsonPut is a request of which a rest was not sent.
type jsonPut struct {
	id   uint32
	rest []byte
}

// jsonPutter sends them within the windows that the server opens.
type jsonPutter struct {
	*answers
	// windows are what the server has opened, beyond what all begin with.
	windows                         map[uint32]int
	initial, synchronized, answered int
	puts                            []*jsonPut
}

// almostSent is how many of the requests have been sent but for the last byte.
func (p *jsonPutter) almostSent() (puts int) {
	for _, put := range p.puts {
		if len(put.rest) == 1 {
			puts++
		}
	}
	return puts
}

// sendParts sends a part of each request as far as windows let it, but no last byte; whether it has sent anything.
func (p *jsonPutter) sendParts() (sent bool) {
	p.t.Helper()
	for _, put := range p.puts {
		part := min(16384, p.initial+p.windows[put.id], p.windows[0], len(put.rest)-1)
		if part > 0 {
			p.sendPart(put, 0, part)
			sent = true
		}
	}
	return sent
}

func (p *jsonPutter) sendPart(put *jsonPut, flags byte, bytes int) {
	p.t.Helper()
	p.send(wire.Append(nil, wire.Data, flags, put.id, put.rest[:bytes]))
	put.rest = put.rest[bytes:]
	p.windows[put.id], p.windows[0] = p.windows[put.id]-bytes, p.windows[0]-bytes
}

// complete sends the last bytes of all that are sent but for these, and returns how many there were.
func (p *jsonPutter) complete() (completed int) {
	p.t.Helper()
	for _, put := range p.puts {
		if len(put.rest) == 1 {
			p.sendPart(put, wire.EndStream, 1)
			completed++
		}
	}
	return completed
}

// synchronize reads what the server said until it had read all that was sent.
func (p *jsonPutter) synchronize() {
	p.t.Helper()
	p.send(wire.AppendSettings(nil))
	for before := p.synchronized; p.synchronized == before; {
		p.read()
	}
}

// read reads a frame, and takes account of it.
func (p *jsonPutter) read() {
	p.t.Helper()
	f, fields := p.next()
	switch {
	case f.Type == wire.WindowUpdate:
		p.windows[f.Stream] += int(binary.BigEndian.Uint32(f.Payload))
	case f.Type == wire.RstStream:
		p.t.Fatalf("stream %d was reset: %d", f.Stream, f.Code())
	case f.Type == wire.Settings && f.Has(wire.Ack):
		p.synchronized++
	case f.Type == wire.Settings:
		for pair := f.Payload; len(pair) >= 6; pair = pair[6:] {
			if binary.BigEndian.Uint16(pair) == wire.InitialWindowSize {
				p.initial = int(binary.BigEndian.Uint32(pair[2:]))
			}
		}
	case fields[":status"] != "" && fields[":status"] != "200":
		p.t.Fatalf("stream %d was answered %v", f.Stream, fields)
	}
	if endsStream(f) {
		p.answered++
	}
}
