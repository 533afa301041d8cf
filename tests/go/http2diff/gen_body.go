package main

import (
	"bytes"
	"compress/gzip"
	"slices"
	"sync"

	"stele.test/wire"
)

// maxMessageBytes is the largest message by default, 1.5 MiB for the request and 512 KiB for what is around it.
const maxMessageBytes = 2 << 20

// changeBody changes the messages of a call, or how the client ends its side, in one way.
func (g gen) changeBody(c *call) {
	if c.stray != nil {
		// It depends on the rest as it is.
		return
	}
	changes := []func(*call){
		g.flag, g.gzipped, g.gzipped, g.partial, g.length, g.extra, g.undecodable, g.noMessage, g.emptyMessage, g.afterEnd,
		g.trailers, g.openUntilRead, g.oneByteFrames,
	}
	pick(g, changes...)(c)
}

// endsLater makes the client end its side at the latest when the server has read everything: for bodies after which
// a server may wait for more.
func (g gen) endsLater(c *call) {
	c.end = pick(g, withLastData, withEmptyData, laterOn)
	if c.messages > 0 {
		// A watch stream would go on.
		c.callOther(g)
	}
}

// callOther makes it a call of a method that ends with the client's side.
func (c *call) callOther(g gen) {
	path := pick(g, "/etcdserverpb.Lease/LeaseKeepAlive", "/etcdserverpb.KV/Range", "/etcdserverpb.Maintenance/Status")
	c.set(":path", path)
	// The message is that of another method.
	c.note("undecodable", "%s instead", path)
	c.messages = 0
}

func (g gen) flag(c *call) {
	c.body[0] = pick(g, 1, 1, 2, 3, 0x80, 0xff, byte(g.IntN(256)))
	c.note("flag", "message flag %d", c.body[0])
	g.endsLater(c)
}

func (g gen) gzipped(c *call) {
	encoding := pick(g, "gzip", "gzip", "gzip", "gzip", "identity", "deflate", "")
	c.again("grpc-encoding", "encodings")
	c.add("grpc-encoding", encoding)
	body := zip(c.body[5:])
	what := "a gzipped message"
	switch g.IntN(8) {
	case 0:
		what, body = "a damaged gzipped message", body[:len(body)/2]
	case 1:
		what, body = "a gzipped message with a wrong checksum", slices.Concat(body[:len(body)-8], make([]byte, 8))
	case 2:
		what, body = "no gzip", g.bytes(20)
	case 3:
		what, body = "gzip of nothing", nil
	case 4:
		what, body = "gzip of more than a message", tooLarge()
	case 5:
		what, body = "two gzipped parts", slices.Concat(body, zip(nil))
	case 6:
		what, body = "gzip with bytes behind it", append(body, 1, 2, 3)
	}
	c.body = wire.Message(1, body)
	c.note("gzip", "%s as %q", what, encoding)
	g.endsLater(c)
}

// tooLarge is a byte more than a message may have, compressed.
var tooLarge = sync.OnceValue(func() []byte { return zip(make([]byte, maxMessageBytes+1)) })

func zip(data []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	// Writing to memory does not fail.
	_, _ = writer.Write(data)
	_ = writer.Close()
	return out.Bytes()
}

func (g gen) partial(c *call) {
	c.body = c.body[:g.IntN(len(c.body))]
	c.note("partial", "%d bytes of a message", len(c.body))
	g.endsLater(c)
}

func (g gen) length(c *call) {
	length := pick(g, uint32(maxMessageBytes), maxMessageBytes+1, 1<<31-1, 1<<31, 1<<32-1, uint32(len(c.body)-4))
	c.body = slices.Concat(c.body[:1], wire.Message(0, nil)[1:5], c.body[5:])
	for i := range 4 {
		c.body[1+i] = byte(length >> (24 - 8*i))
	}
	c.note("length", "a message that says it has %d bytes", length)
	g.endsLater(c)
}

func (g gen) extra(c *call) {
	extra := pick(g, c.body, c.body[:len(c.body)/2], []byte{0}, []byte{9, 9, 9, 9, 9, 9}, make([]byte, 5))
	c.body = slices.Concat(c.body, extra)
	c.note("extra", "%d bytes behind the message", len(extra))
	g.endsLater(c)
}

func (g gen) undecodable(c *call) {
	c.body = wire.Message(0, pick(g, []byte{0xff}, []byte{0xff, 0xff}, []byte{0x0a, 0x7f}, []byte{0}, []byte{7}, g.bytes(20)))
	c.note("undecodable", "message %x", c.body[5:])
	g.endsLater(c)
}

// noMessage sends no message. The end is always a DATA frame: etcd never answers a call whose HEADERS frame ends it.
func (g gen) noMessage(c *call) {
	c.body = nil
	g.endsLater(c)
	c.note("no-message", "no message")
}

func (g gen) emptyMessage(c *call) {
	c.body = make([]byte, 5)
	c.note("empty-message", "an empty message")
	g.endsLater(c)
}

// afterEnd sends more on a stream whose end was sent. Only a watch stream surely still exists at that time.
func (g gen) afterEnd(c *call) {
	*c = g.callOf(method{path: "/etcdserverpb.Watch/Watch", request: watchRequest()})
	c.end = withLastData
	switch kind := g.IntN(3); kind {
	case 0, 1:
		c.stray = func(id uint32) []byte {
			return wire.Append(nil, wire.Data, byte(kind), id, wire.Message(0, nil))
		}
		c.note("after-end", "data after the end")
	default:
		c.stray = func(id uint32) []byte {
			return wire.Append(nil, wire.Headers, wire.EndHeaders|wire.EndStream, id, wire.Block(wire.Field{Name: "x", Value: "y"}))
		}
		c.note("second-headers", "headers after the end")
	}
}

func (g gen) trailers(c *call) {
	c.end = withTrailers
	c.note("second-headers", "ended with trailers")
}

func (g gen) openUntilRead(c *call) {
	if c.messages == 0 {
		c.end = laterOn
		c.note("", "ended late")
	}
}

func (g gen) oneByteFrames(c *call) {
	for range min(len(c.body), 60) {
		c.cuts = append(c.cuts, pick(g, 1, 1, 1, 0))
	}
	c.note("", "frames of a byte")
}
