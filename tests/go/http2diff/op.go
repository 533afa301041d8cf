package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"

	"stele.test/wire"
)

// op is one step of a script: bytes that both servers get on the connection of the script, and what to wait for.
type op struct {
	// text says what is sent.
	text string
	// tags name what is unusual about it, for the table of known differences.
	tags []string
	// fresh means that the op begins a connection of its own and says the greeting itself, or something else.
	fresh bool
	// last means that what follows would not be a valid continuation of the connection.
	last bool
	// render makes the bytes. It may be called several times, each time for a connection in another state.
	render func(*sender) sent
}

func (o op) String() string {
	if len(o.tags) == 0 {
		return o.text
	}
	return fmt.Sprintf("%s [%s]", o.text, strings.Join(o.tags, " "))
}

func (o op) has(tag string) bool { return slices.Contains(o.tags, tag) }

// sender is what a client's side of a connection must remember.
type sender struct {
	next  uint32
	block bytes.Buffer
	table *hpack.Encoder
}

func newSender() *sender {
	s := &sender{next: 1}
	s.table = hpack.NewEncoder(&s.block)
	return s
}

// stream takes the next stream id.
func (s *sender) stream() uint32 {
	id := s.next
	s.next += 2
	return id
}

// ended is a stream that is over, and the bytes that make one if there was none yet.
func (s *sender) ended() ([]byte, uint32) {
	if s.next > 1 {
		return nil, s.next - 2
	}
	id := s.stream()
	block := wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...)
	begun := wire.Append(nil, wire.Headers, wire.EndHeaders, id, block)
	return wire.AppendWord(begun, wire.RstStream, id, wire.Cancel), id
}

// sent is an op as bytes.
type sent struct {
	bytes []byte
	// settings and pings are frames among the bytes that have to be acknowledged.
	settings, pings int
	streams         []awaited
	// after is sent when everything awaited has arrived, to clean up; afterSettings are SETTINGS frames in it.
	after         []byte
	afterSettings int
}

// awaited is a stream of an op.
type awaited struct {
	id uint32
	// later is sent once the server has read the op, if the stream has not ended by then.
	later []byte
	// messages are enough to wait for, if the stream does not end before; 0 means that it has to end.
	messages int
	// silent means that nothing is expected, as the client has reset the stream.
	silent bool
	// unended means that the client's side stays open, so that an answer has to be followed by RST_STREAM.
	unended bool
}

// streamWindow is more than any answer needs.
const streamWindow = 1 << 20

// greeting is what a connection begins with, unless its op says it: the preface, settings, and a window that no
// script exhausts.
func greeting() []byte {
	settings := wire.AppendSettings([]byte(wire.Preface), uint32(wire.InitialWindowSize), streamWindow)
	return wire.AppendWord(settings, wire.WindowUpdate, 0, 1<<24)
}

// sent is an op as it is sent: its bytes and a SETTINGS frame, whose acknowledgement says that they were read.
// Pings would do the same, but too many of them end a connection.
func (o op) sent(s *sender) sent {
	out := o.render(s)
	out.bytes = wire.AppendSettings(out.bytes)
	out.settings++
	return out
}
