package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"stele.test/wire"
)

// opsOfScript is how many ops a script has at most.
const opsOfScript = 12

// script makes the ops of one script of a seed.
func script(seed, number uint64) []op {
	g := gen{rand.New(rand.NewPCG(seed, number))}
	var ops []op
	if g.often(3) {
		ops = append(ops, g.greeting())
	}
	for range 1 + g.IntN(opsOfScript) {
		ops = append(ops, g.op())
	}
	return ops
}

func (g gen) op() op {
	switch n := g.IntN(100); {
	case n < 70:
		c := g.call()
		for range pick(g, 0, 1, 1, 1, 2) {
			if g.often(60) {
				g.changeHeaders(&c)
			} else if len(c.body) >= 5 {
				g.changeBody(&c)
			}
		}
		g.shape(&c)
		return c.op()
	case n < 74:
		return g.damagedBlock()
	case n < 79:
		return g.smallWindow()
	case n < 82:
		return g.together()
	default:
		return g.frameOp()
	}
}

// damagedBlock is a call whose header block breaks the rules of HPACK.
func (g gen) damagedBlock() op {
	c := g.callOf(method{path: "/etcdserverpb.Maintenance/Status", request: nil})
	c.end = withLastData
	damages := []struct {
		text string
		data []byte
	}{
		{"index 0", []byte{0x80}}, {"index past both tables", []byte{0xff, 0x7f}}, {"an endless integer",
			[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		{"a table larger than allowed", wire.AppendInteger(nil, 0x20, 5, 4097)}, {"half a string", []byte{0, 5, 'a'}},
		{"half an integer", []byte{0xff}}, {"half a field", []byte{0x40}}, {"Huffman's padding too long", []byte{0, 0x82, 0xff, 0xff, 1, 'x'}},
		{"Huffman's padding of zeros", []byte{0, 0x81, 0x00, 1, 'x'}}, {"a table of its size", wire.AppendInteger(nil, 0x20, 5, 4096)},
		{"a named index past both tables", []byte{0x7f, 0x7f, 1, 'x'}}, {"an empty name", []byte{0, 0, 1, 'x'}},
	}
	damage := pick(g, damages...)
	if g.often(50) {
		c.first = damage.data
		c.note("hpack", "%s before the headers", damage.text)
	} else {
		c.last = damage.data
		c.note("hpack", "%s behind the headers", damage.text)
	}
	return c.op()
}

// smallWindow is a call whose answer has to wait for the client's window, again and again.
func (g gen) smallWindow() op {
	c := g.callOf(method{path: "/etcdserverpb.KV/Range", request: bigRange()})
	c.end = pick(g, withLastData, withEmptyData)
	window, step := pick(g, uint32(0), 1, 5, 100, 16384), pick(g, uint32(1000), 5000, 40_000)
	if g.often(30) {
		c = g.callOf(method{path: "/etcdserverpb.Maintenance/Status", request: nil})
		c.end, step = withLastData, pick(g, uint32(1), 7, 1000)
	}
	c.note("small-window", "window of %d, then steps of %d", window, step)
	text := strings.Join(c.notes, ", ")
	return op{text: text, tags: c.tags, render: func(s *sender) sent {
		out := sent{bytes: wire.AppendSettings(nil, uint32(wire.InitialWindowSize), window), settings: 1}
		call := c.op().render(s)
		out.bytes = append(out.bytes, call.bytes...)
		out.streams = call.streams
		for given := window; given < bigValues*bigBytes+1000; given += step {
			out.streams[0].later = wire.AppendWord(out.streams[0].later, wire.WindowUpdate, out.streams[0].id, step)
			if step < 1000 && given > 1000 {
				break
			}
		}
		out.after = wire.AppendSettings(out.after, uint32(wire.InitialWindowSize), streamWindow)
		out.afterSettings = 1
		return out
	}}
}

// together is several calls at once, their frames in any order.
func (g gen) together() op {
	calls := make([]call, 2+g.IntN(6))
	if g.often(10) {
		calls = make([]call, 100+g.IntN(100))
	}
	texts := []string{fmt.Sprintf("%d calls together", len(calls))}
	tags := []string{"together"}
	for i := range calls {
		c := g.call()
		g.shape(&c)
		calls[i] = c
		tags = append(tags, c.tags...)
		if len(calls) < 10 {
			texts = append(texts, strings.Join(c.notes, ", "))
		}
	}
	order := g.Uint64()
	return op{text: strings.Join(texts, "; "), tags: tags, render: func(s *sender) sent {
		r := rand.New(rand.NewPCG(order, 0))
		var out sent
		var waiting [][][]byte
		for _, c := range calls {
			frames, stream := c.frames(s)
			// Streams have to begin in the order of their ids; what follows their headers may come at any time.
			out.bytes = append(out.bytes, frames[0]...)
			waiting = append(waiting, frames[1:])
			out.streams = append(out.streams, stream)
			out.after = append(out.after, c.cleanup(stream.id)...)
		}
		for len(waiting) > 0 {
			i := r.IntN(len(waiting))
			if len(waiting[i]) == 0 {
				waiting[i] = waiting[len(waiting)-1]
				waiting = waiting[:len(waiting)-1]
				continue
			}
			out.bytes = append(out.bytes, waiting[i][0]...)
			waiting[i] = waiting[i][1:]
		}
		return out
	}}
}

// greeting is how a connection begins, rightly or not.
func (g gen) greeting() op {
	settings := wire.AppendSettings(nil)
	ping := wire.AppendPing(nil, 0, 1)
	kinds := []struct {
		text     string
		data     []byte
		settings int
	}{
		{"no settings", []byte(wire.Preface), 0}, {"a ping before settings", append([]byte(wire.Preface), ping...), 0},
		{"acknowledged settings first", wire.Append([]byte(wire.Preface), wire.Settings, wire.Ack, 0, nil), 0},
		{"another method", []byte("PRX" + wire.Preface[3:] + string(settings)), 1},
		{"another version", []byte("PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n" + string(settings)), 1},
		{"another end", []byte("PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n" + string(settings)), 1},
		{"an unknown frame first", wire.Append([]byte(wire.Preface), 0x42, 0, 0, nil), 0},
		{"a window update first", wire.AppendWord([]byte(wire.Preface), wire.WindowUpdate, 0, 1), 0},
		{"settings on a stream", wire.Append([]byte(wire.Preface), wire.Settings, 0, 1, nil), 1},
		{"settings that are too long", wire.Append([]byte(wire.Preface), wire.Settings, 0, 0, make([]byte, 6*3000)), 1},
		{"settings three times", append([]byte(wire.Preface), append(append(settings, settings...), settings...)...), 3},
	}
	k := pick(g, kinds...)
	return op{text: "greeting: " + k.text, tags: []string{"greeting"}, fresh: true,
		render: func(*sender) sent { return sent{bytes: k.data, settings: k.settings} }}
}
