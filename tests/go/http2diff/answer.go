package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"

	"stele.test/wire"
)

// answer is what a server has sent on a stream.
type answer struct {
	awaited
	// lists are the header lists, of which the last may be trailers.
	lists [][]hpack.HeaderField
	body  []byte
	// ended means that the server has ended its side; broken that it has reset the stream.
	ended, broken bool
	code          uint32
}

func (a *answer) headers(fields []hpack.HeaderField, ends bool) {
	a.lists = append(a.lists, fields)
	a.ended = a.ended || ends
}

func (a *answer) data(f wire.Frame) {
	payload := f.Payload
	if f.Has(wire.Padded) && len(payload) > 0 {
		payload = payload[1:max(1, len(payload)-int(payload[0]))]
	}
	a.body = append(a.body, payload...)
	a.ended = a.ended || f.Has(wire.EndStream)
}

func (a *answer) reset(code uint32) {
	// After its answer a server may ask the client with NO_ERROR to send no more.
	a.broken = true
	if !a.ended || code != wire.NoError {
		a.code = code
	}
}

// arrived says whether everything awaited is there.
func (a *answer) arrived() bool {
	switch {
	case a.silent:
		return true
	case a.broken:
		return true
	case a.messages > 0 && len(a.flags()) >= a.messages:
		return true
	}
	// A client that has not ended its side learns that it need not send more.
	return a.ended && !a.unended
}

// isRefusal says whether the answer is one of headers only.
func (a *answer) isRefusal() bool { return len(a.lists) == 1 && a.ended }

// flags are the flags of all complete messages.
func (a *answer) flags() []byte {
	var flags []byte
	for body := a.body; len(body) >= 5; {
		length := int(binary.BigEndian.Uint32(body[1:]))
		if len(body)-5 < length {
			break
		}
		flags = append(flags, body[0])
		body = body[5+length:]
	}
	return flags
}

// String is the answer as it is compared: without the content of messages and what depends on the time.
func (a *answer) String() string {
	switch {
	case a.silent:
		return "reset by the client"
	case a.code != wire.NoError:
		// What was sent before depends on who was faster.
		return fmt.Sprintf("reset %d", a.code)
	case a.broken && !a.ended:
		return "reset 0 before the end"
	case !a.arrived():
		return "no end: " + a.content()
	}
	if a.messages > 0 && len(a.flags()) >= a.messages {
		return fmt.Sprintf("headers %s, messages %v", list(a.lists[:1]), a.flags()[:a.messages])
	}
	return a.content()
}

func (a *answer) content() string {
	if a.isRefusal() && len(a.body) == 0 {
		return "headers only " + list(a.lists)
	}
	return fmt.Sprintf("headers %s, messages %v", list(a.lists), a.flags())
}

// list prints header lists; of one list the order of fields has no meaning.
func list(lists [][]hpack.HeaderField) string {
	var out []string
	for _, fields := range lists {
		var lines []string
		for _, field := range fields {
			if field.Name == "grpc-message" && field.Value == "" {
				// To clients the same as none.
				continue
			}
			lines = append(lines, fmt.Sprintf("%s=%s", field.Name, trimmed(field.Value)))
		}
		slices.Sort(lines)
		out = append(out, "{"+strings.Join(lines, "; ")+"}")
	}
	return strings.Join(out, " ")
}

// beginnings are texts of etcd's libraries, or of ours, of which only the beginning is compared.
var beginnings = []string{
	"grpc: error unmarshalling request",
	"grpc: failed to unmarshal the received message",
	"received an illegal stream id",
}

func trimmed(text string) string {
	for _, beginning := range beginnings {
		if strings.HasPrefix(text, beginning) {
			return beginning
		}
	}
	return text
}

// outcome is what came of an op on one connection.
func (c *connection) outcome(s sent) string {
	if c.end != "" && c.end != "no answer" {
		// The answers of other streams may or may not have left before.
		return c.end
	}
	var lines []string
	if c.end != "" {
		lines = append(lines, fmt.Sprintf("no answer within %s (settings %d, pings %d are not acknowledged)", patience, c.settings, c.pings))
	}
	for _, stream := range s.streams {
		lines = append(lines, c.streams[stream.id].String())
	}
	if len(lines) == 0 {
		return "goes on"
	}
	return strings.Join(lines, "\n")
}
