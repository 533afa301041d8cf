package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"

	"stele.test/wire"
)

// How a client ends its side of a stream.
type ending int

const (
	withHeaders ending = iota
	withLastData
	withEmptyData
	withTrailers
	// laterOn: with an empty DATA frame, once the server has read the rest and has not answered.
	laterOn
	never
)

// call is a request in the making: generators change parts of it before it becomes an op.
type call struct {
	fields []wire.Field
	// indexed says for each field whether HPACK's tables and Huffman's code are used; missing means no.
	indexed []bool
	// first and last are put before and behind the fields in the header block, as they are.
	first, last []byte
	// resize is a new size of the table, by HPACK, before the block; below 0 there is none.
	resize int
	// blocks are the sizes of the fragments of the header block; the last takes the rest.
	blocks []int
	// pads are the lengths of padding: of the HEADERS frame and of each DATA frame; below 0 there is none.
	headerPad, dataPad int
	priority           []byte
	// body is the content of all DATA frames; cuts are the sizes of the frames, the last of which takes the rest.
	body []byte
	cuts []int
	end  ending
	// stray are bytes behind the last frame, made for the id of the stream.
	stray func(id uint32) []byte
	// messages is what to wait for on a stream that does not end, see awaited.
	messages int
	silent   bool
	notes    []string
	tags     []string
}

func (c *call) note(tag, format string, a ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, a...))
	if tag != "" {
		c.tags = append(c.tags, tag)
	}
}

// set replaces the value of a field.
func (c *call) set(name, value string) {
	for i := range c.fields {
		if c.fields[i].Name == name {
			c.fields[i].Value = value
			return
		}
	}
	c.add(name, value)
}

// again adds a tag if the call has a field of that name already.
func (c *call) again(name, tag string) {
	if slices.ContainsFunc(c.fields, func(f wire.Field) bool { return f.Name == name }) {
		c.tags = append(c.tags, tag)
	}
}

// drop removes a field.
func (c *call) drop(name string) {
	for i := range c.fields {
		if c.fields[i].Name == name {
			c.fields = append(c.fields[:i:i], c.fields[i+1:]...)
			return
		}
	}
}

func (c *call) add(name, value string) {
	c.fields = append(c.fields, wire.Field{Name: name, Value: value})
}

// op makes the call an op.
func (c call) op() op {
	return op{
		text: strings.Join(c.notes, ", "), tags: c.tags,
		render: func(s *sender) sent {
			frames, stream := c.frames(s)
			var out sent
			for _, frame := range frames {
				out.bytes = append(out.bytes, frame...)
			}
			out.streams = []awaited{stream}
			out.after = c.cleanup(stream.id)
			return out
		},
	}
}

// cleanup resets a stream that the server would keep.
func (c call) cleanup(id uint32) []byte {
	if c.messages > 0 && !c.silent {
		return wire.AppendWord(nil, wire.RstStream, id, wire.Cancel)
	}
	return nil
}

// frames are the frames of the call in order; the frames of a header block, which nothing may interrupt, are one.
func (c call) frames(s *sender) ([][]byte, awaited) {
	id := s.stream()
	stream := awaited{id: id, messages: c.messages, silent: c.silent, unended: c.end == never && c.messages == 0}
	frames := [][]byte{c.head(s, id)}
	if c.end != withHeaders {
		frames = append(frames, c.data(id)...)
	}
	switch c.end {
	case withEmptyData:
		frames = append(frames, wire.Append(nil, wire.Data, wire.EndStream, id, nil))
	case withTrailers:
		block := wire.Block(wire.Field{Name: "x-trailer", Value: "1"})
		frames = append(frames, wire.Append(nil, wire.Headers, wire.EndStream|wire.EndHeaders, id, block))
	case laterOn:
		stream.later = wire.Append(nil, wire.Data, wire.EndStream, id, nil)
	}
	if c.stray != nil {
		frames = append(frames, c.stray(id))
	}
	return frames, stream
}

func (c call) head(s *sender, id uint32) []byte {
	s.block.Reset()
	if c.resize >= 0 {
		s.table.SetMaxDynamicTableSize(uint32(c.resize))
	}
	s.block.Write(c.first)
	for i, field := range c.fields {
		if i < len(c.indexed) && c.indexed[i] {
			// Writing to memory does not fail.
			_ = s.table.WriteField(hpack.HeaderField{Name: field.Name, Value: field.Value})
		} else {
			s.block.Write(wire.AppendField(nil, field))
		}
	}
	s.block.Write(c.last)
	var flags byte
	if c.end == withHeaders {
		flags |= wire.EndStream
	}
	fragments := cut(s.block.Bytes(), c.blocks)
	var head []byte
	for i, fragment := range fragments {
		kind := wire.Continuation
		if i == 0 {
			kind = wire.Headers
			fragment = append(append([]byte(nil), c.priority...), fragment...)
			if c.priority != nil {
				flags |= wire.HasPriority
			}
			flags, fragment = pad(flags, fragment, c.headerPad)
		}
		if i == len(fragments)-1 {
			flags |= wire.EndHeaders
		}
		head = wire.Append(head, kind, flags, id, fragment)
		flags = 0
	}
	return head
}

func (c call) data(id uint32) [][]byte {
	var frames [][]byte
	if len(c.body) == 0 && c.end != withLastData {
		return nil
	}
	parts := cut(c.body, c.cuts)
	for i, part := range parts {
		var flags byte
		if i == len(parts)-1 && c.end == withLastData {
			flags = wire.EndStream
		}
		flags, part = pad(flags, part, c.dataPad)
		frames = append(frames, wire.Append(nil, wire.Data, flags, id, part))
	}
	return frames
}

func pad(flags byte, payload []byte, length int) (byte, []byte) {
	if length < 0 {
		return flags, payload
	}
	padded := append([]byte{byte(length)}, payload...)
	return flags | wire.Padded, append(padded, make([]byte, length)...)
}

// largestFrame is the largest frame that every server has to take.
const largestFrame = 16384

// cut divides bytes into parts of the given sizes and a rest, none larger than a frame with padding may be.
func cut(data []byte, sizes []int) [][]byte {
	var parts [][]byte
	for _, size := range sizes {
		size = min(size, len(data), largestFrame-256)
		parts = append(parts, data[:size])
		data = data[size:]
	}
	for len(data) > largestFrame-256 {
		parts = append(parts, data[:largestFrame-256])
		data = data[largestFrame-256:]
	}
	return append(parts, data)
}
