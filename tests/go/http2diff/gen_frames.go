package main

import (
	"encoding/binary"
	"fmt"
	"slices"

	"stele.test/wire"
)

// plain makes an op of bytes that no stream of the op answers.
func plain(tag, text string, data []byte) op {
	o := op{text: text, render: func(*sender) sent { return sent{bytes: data} }}
	if tag != "" {
		o.tags = []string{tag}
	}
	return o
}

// frameOp is an op of frames other than calls.
func (g gen) frameOp() op {
	kinds := []func() op{
		g.ping, g.ping, g.settings, g.settings, g.badSettings, g.windowUpdate, g.windowUpdate, g.priority, g.unknownFrame,
		g.reset, g.dataNowhere, g.strayHeaders, g.wrongFrame, g.wrongFrame, g.reservedBit,
	}
	return pick(g, kinds...)()
}

func (g gen) ping() op {
	if g.often(20) {
		return plain("ping-ack", "an answer to no ping", wire.AppendPing(nil, wire.Ack, g.Uint64()))
	}
	count := 1
	if g.often(20) {
		count = 1 + g.IntN(6)
	}
	var data []byte
	for range count {
		data = wire.AppendPing(data, 0, g.Uint64())
	}
	o := op{text: fmt.Sprintf("%d pings", count), tags: []string{"ping"}}
	o.render = func(*sender) sent { return sent{bytes: data, pings: count} }
	return o
}

func (g gen) settings() op {
	var pairs []uint32
	for range g.IntN(4) {
		switch g.IntN(7) {
		case 0:
			// Large enough that no encoder of a server has to say that it uses a smaller table; 0 is another case.
			pairs = append(pairs, uint32(wire.HeaderTableSize), pick(g, uint32(0), 4096, 65536))
		case 1:
			pairs = append(pairs, uint32(wire.EnablePush), uint32(g.IntN(2)))
		case 2:
			pairs = append(pairs, uint32(wire.MaxConcurrentStreams), pick(g, uint32(0), 1, 1<<32-1))
		case 3:
			pairs = append(pairs, uint32(wire.MaxFrameSize), pick(g, uint32(16384), 65536, 1<<24-1))
		case 4:
			pairs = append(pairs, uint32(wire.MaxHeaderListSize), pick(g, uint32(8192), 1<<20, 1<<32-1))
		case 5:
			pairs = append(pairs, uint32(wire.InitialWindowSize), pick(g, uint32(streamWindow), 1<<24, 1<<31-1))
		default:
			pairs = append(pairs, uint32(7+g.IntN(60_000)), g.Uint32())
		}
	}
	data := wire.AppendSettings(nil, pairs...)
	return op{text: fmt.Sprintf("settings %v", pairs), tags: []string{"settings"},
		render: func(*sender) sent { return sent{bytes: data, settings: 1} }}
}

func (g gen) badSettings() op {
	pairs := pick(g,
		[]uint32{uint32(wire.EnablePush), 2}, []uint32{uint32(wire.InitialWindowSize), 1 << 31},
		[]uint32{uint32(wire.InitialWindowSize), 1<<32 - 1}, []uint32{uint32(wire.MaxFrameSize), 16383},
		[]uint32{uint32(wire.MaxFrameSize), 0}, []uint32{uint32(wire.MaxFrameSize), 1 << 24},
		[]uint32{8, 2}, []uint32{8, 1},
	)
	data := wire.AppendSettings(nil, pairs...)
	return op{text: fmt.Sprintf("settings %v", pairs), tags: []string{"bad-settings"},
		render: func(*sender) sent { return sent{bytes: data, settings: 1} }}
}

func (g gen) windowUpdate() op {
	increment := pick(g, uint32(0), 1, 1000, 1<<20, 1<<31-1, 1<<31, 1<<32-1)
	tag := "window"
	if increment&^(1<<31) == 0 || increment&^(1<<31) > 1<<30 {
		tag = "bad-window"
	}
	tags := []string{tag}
	where := g.IntN(3)
	if where == 1 {
		tags = append(tags, "idle")
	}
	o := op{text: fmt.Sprintf("window update %#x %s", increment, []string{"of the connection", "of no stream yet",
		"of a stream that ended"}[where]), tags: tags}
	o.render = func(s *sender) sent {
		var first []byte
		id := []uint32{0, s.next + 10, 0}[where]
		if where == 2 {
			first, id = s.ended()
		}
		return sent{bytes: wire.AppendWord(first, wire.WindowUpdate, id, increment)}
	}
	return o
}

func (g gen) priority() op {
	payload := g.bytes(5)
	onItself := g.often(30)
	o := op{text: "priority", tags: []string{"priority"}}
	if onItself {
		o.text, o.tags = "priority of a stream on itself", []string{"own-priority"}
	}
	o.render = func(s *sender) sent {
		if onItself {
			binary.BigEndian.PutUint32(payload, s.next+2)
		}
		return sent{bytes: wire.Append(nil, wire.Priority, 0, s.next+2, payload)}
	}
	return o
}

func (g gen) unknownFrame() op {
	kind := pick(g, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x42, 0xff)
	stream, flags := pick(g, uint32(0), 1, 2, 1001), byte(g.Uint32())
	payload := g.bytes(pick(g, 0, 1, 4, 8, 100, largestFrame))
	tag := ""
	if kind == 0x10 {
		tag = "priority-update"
	}
	return plain(tag, fmt.Sprintf("frame of type %#x, stream %d, flags %#x, %d bytes", kind, stream, flags, len(payload)),
		wire.Append(nil, wire.Type(kind), flags, stream, payload))
}

// reset resets a call that has just begun, or a stream that is no more or not yet.
func (g gen) reset() op {
	code := pick(g, wire.Cancel, wire.NoError, wire.ProtocolError, wire.InternalError, 0xffff)
	switch g.IntN(4) {
	case 0:
		return op{text: "reset of a stream that ended", tags: []string{"reset-ended"}, render: func(s *sender) sent {
			first, id := s.ended()
			return sent{bytes: wire.AppendWord(first, wire.RstStream, id, code)}
		}}
	case 1:
		return op{text: "reset of no stream yet", tags: []string{"idle"}, render: func(s *sender) sent {
			return sent{bytes: wire.AppendWord(nil, wire.RstStream, s.next+10, code)}
		}}
	}
	c := g.call()
	again := g.often(30)
	c.end, c.silent = pick(g, withHeaders, withLastData, never), true
	c.stray = func(id uint32) []byte {
		data := wire.AppendWord(nil, wire.RstStream, id, code)
		if again {
			data = wire.AppendWord(data, wire.RstStream, id, code)
		}
		return data
	}
	c.note("reset", "reset with %d, twice %t", code, again)
	return c.op()
}

func (g gen) dataNowhere() op {
	payload := g.bytes(g.IntN(100))
	flags := pick(g, 0, wire.EndStream)
	switch g.IntN(4) {
	case 0:
		return plain("fatal", "data on stream 0", wire.Append(nil, wire.Data, flags, 0, payload))
	case 1:
		return plain("idle", "data on an even stream", wire.Append(nil, wire.Data, flags, 2, payload))
	case 2:
		return op{text: "data on no stream yet", tags: []string{"idle"}, render: func(s *sender) sent {
			return sent{bytes: wire.Append(nil, wire.Data, flags, s.next+10, payload)}
		}}
	default:
		return op{text: "data on a stream that ended", tags: []string{"data-ended"}, render: func(s *sender) sent {
			first, id := s.ended()
			return sent{bytes: wire.Append(first, wire.Data, flags, id, payload)}
		}}
	}
}

// strayHeaders opens streams that cannot be opened.
func (g gen) strayHeaders() op {
	block := wire.Block(wire.Request("/etcdserverpb.Maintenance/Status")...)
	flags := wire.EndHeaders | wire.EndStream
	headers := func(id uint32) []byte { return wire.Append(nil, wire.Headers, flags, id, block) }
	switch g.IntN(3) {
	case 0:
		return plain("fatal", "headers on stream 0", headers(0))
	case 1:
		return plain("even-stream", "headers on stream 2", headers(2))
	default:
		return op{text: "headers on a stream that ended", tags: []string{"second-headers"}, render: func(s *sender) sent {
			id := s.stream()
			return sent{bytes: slices.Concat(headers(id), wire.AppendWord(nil, wire.RstStream, id, wire.Cancel), headers(id))}
		}}
	}
}

// wrongFrame is a frame that is wrong in itself. Most end the connection.
func (g gen) wrongFrame() op {
	kinds := []struct {
		text   string
		kind   wire.Type
		flags  byte
		stream uint32
		length int
	}{
		{"ping of 7 bytes", wire.Ping, 0, 0, 7}, {"ping of 9 bytes", wire.Ping, 0, 0, 9}, {"ping on a stream", wire.Ping, 0, 1, 8},
		{"settings of 5 bytes", wire.Settings, 0, 0, 5}, {"settings on a stream", wire.Settings, 0, 1, 6},
		{"acknowledged settings with content", wire.Settings, wire.Ack, 0, 6},
		{"reset of 3 bytes", wire.RstStream, 0, 1, 3}, {"reset of stream 0", wire.RstStream, 0, 0, 4},
		{"window update of 3 bytes", wire.WindowUpdate, 0, 0, 3}, {"window update of 5 bytes", wire.WindowUpdate, 0, 0, 5},
		{"priority of 4 bytes", wire.Priority, 0, 1, 4}, {"priority of stream 0", wire.Priority, 0, 0, 5},
		{"goaway of 7 bytes", wire.GoAway, 0, 0, 7}, {"goaway on a stream", wire.GoAway, 0, 1, 8}, {"goaway", wire.GoAway, 0, 0, 8},
		{"push promise", wire.PushPromise, wire.EndHeaders, 1, 4}, {"push promise of 3 bytes", wire.PushPromise, wire.EndHeaders, 1, 3},
		{"continuation of nothing", wire.Continuation, wire.EndHeaders, 1, 4},
		{"data that is only padding, too long", wire.Data, wire.Padded, 1001, 1}, {"padded data of no bytes", wire.Data, wire.Padded, 1001, 0},
		{"padded headers of no bytes", wire.Headers, wire.Padded | wire.EndHeaders, 1001, 0},
		{"headers with half a priority", wire.Headers, wire.HasPriority | wire.EndHeaders, 1001, 3},
		{"headers of no bytes", wire.Headers, wire.EndHeaders | wire.EndStream, 1001, 0},
		{"a ping that is too long", wire.Ping, 0, 0, largestFrame + 1}, {"data that is too long", wire.Data, 0, 1, largestFrame + 1},
		{"an unknown frame that is too long", 0x42, 0, 0, largestFrame + 1}, {"headers that are too long", wire.Headers, 0, 1001, largestFrame + 1},
		{"headers and no continuation", wire.Headers, 0, 1001, 0},
	}
	k := pick(g, kinds...)
	payload := make([]byte, k.length)
	if k.kind != wire.GoAway && k.kind != wire.PushPromise && len(payload) > 0 {
		payload[0] = byte(k.length)
	}
	tag := "wrong-frame"
	if k.kind == wire.PushPromise {
		tag = "push-promise"
	}
	o := plain(tag, k.text, wire.Append(nil, k.kind, k.flags, k.stream, payload))
	// Some servers take the id of a stream that was begun wrongly for used, and some do not.
	o.last = k.kind == wire.Headers
	return o
}

// reservedBit sets bits that have no meaning.
func (g gen) reservedBit() op {
	c := g.call()
	o := c.op()
	o.text += ", reserved bits set"
	o.tags = append(o.tags, "reserved-bit")
	render := o.render
	o.render = func(s *sender) sent {
		out := render(s)
		for at := 0; at < len(out.bytes); {
			length := int(out.bytes[at])<<16 | int(out.bytes[at+1])<<8 | int(out.bytes[at+2])
			out.bytes[at+4] |= 0x40 | 0x80
			out.bytes[at+5] |= 0x80
			at += 9 + length
		}
		return out
	}
	return o
}
