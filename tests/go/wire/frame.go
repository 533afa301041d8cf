// Package wire speaks HTTP/2 over a raw TCP connection, rightly or wrongly: a test says which bytes are sent, and reads
// every frame that comes back. It keeps no rules, counts no windows and repairs nothing.
package wire

import (
	"encoding/binary"
	"fmt"
)

// Preface is what a client sends first.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Type is the type of a frame.
type Type byte

// The types of RFC 9113, section 6.
const (
	Data Type = iota
	Headers
	Priority
	RstStream
	Settings
	PushPromise
	Ping
	GoAway
	WindowUpdate
	Continuation
)

// Flags of frames; EndStream and Ack are the same bit.
const (
	EndStream   byte = 0x1
	Ack         byte = 0x1
	EndHeaders  byte = 0x4
	Padded      byte = 0x8
	HasPriority byte = 0x20
)

// Settings of RFC 9113, section 6.5.2.
const (
	HeaderTableSize      uint16 = 1
	EnablePush           uint16 = 2
	MaxConcurrentStreams uint16 = 3
	InitialWindowSize    uint16 = 4
	MaxFrameSize         uint16 = 5
	MaxHeaderListSize    uint16 = 6
)

// Error codes of RFC 9113, section 7.
const (
	NoError          uint32 = 0
	ProtocolError    uint32 = 1
	InternalError    uint32 = 2
	FlowControlError uint32 = 3
	Cancel           uint32 = 8
	EnhanceYourCalm  uint32 = 11
)

const (
	lengthOfHead      = 9
	largestFrameBytes = 1<<24 - 1
)

// Frame is a frame as it was received.
type Frame struct {
	Type    Type
	Flags   byte
	Stream  uint32
	Payload []byte
}

// Has says whether a flag is set.
func (f Frame) Has(flag byte) bool { return f.Flags&flag != 0 }

// Code is the error code of a RST_STREAM or GOAWAY frame.
func (f Frame) Code() uint32 {
	from := 0
	if f.Type == GoAway {
		from = 4
	}
	if len(f.Payload) < from+4 {
		return 0
	}
	return binary.BigEndian.Uint32(f.Payload[from:])
}

// Append adds a frame to bytes that will be sent. The stream's reserved bit is sent as it is given.
func Append(to []byte, kind Type, flags byte, stream uint32, payload []byte) []byte {
	if len(payload) > largestFrameBytes {
		panic(fmt.Sprintf("no frame can hold %d bytes", len(payload)))
	}
	to = append(to, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), byte(kind), flags)
	return append(binary.BigEndian.AppendUint32(to, stream), payload...)
}

// AppendSettings adds a SETTINGS frame; pairs are identifiers and values.
func AppendSettings(to []byte, pairs ...uint32) []byte {
	var payload []byte
	for i := 0; i+1 < len(pairs); i += 2 {
		payload = binary.BigEndian.AppendUint16(payload, uint16(pairs[i]))
		payload = binary.BigEndian.AppendUint32(payload, pairs[i+1])
	}
	return Append(to, Settings, 0, 0, payload)
}

// AppendWord adds a frame whose payload is one number: a RST_STREAM or a WINDOW_UPDATE.
func AppendWord(to []byte, kind Type, stream, word uint32) []byte {
	return Append(to, kind, 0, stream, binary.BigEndian.AppendUint32(nil, word))
}

// AppendPing adds a PING frame.
func AppendPing(to []byte, flags byte, number uint64) []byte {
	return Append(to, Ping, flags, 0, binary.BigEndian.AppendUint64(nil, number))
}

// Message is a gRPC message: a flag, the length and the bytes.
func Message(flag byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(body))), body...)
}

// Field is one line of a header list.
type Field struct{ Name, Value string }

// AppendField adds a field to a header block as it is, valid or not: literal, not indexed, without Huffman's code.
func AppendField(to []byte, field Field) []byte {
	to = appendString(append(to, 0), field.Name)
	return appendString(to, field.Value)
}

// Block is a header block of literals.
func Block(fields ...Field) []byte {
	var block []byte
	for _, field := range fields {
		block = AppendField(block, field)
	}
	return block
}

func appendString(to []byte, text string) []byte {
	return append(AppendInteger(to, 0, 7, uint64(len(text))), text...)
}

// AppendInteger adds an integer of HPACK (RFC 7541, section 5.1) with a prefix of so many bits below those of first.
func AppendInteger(to []byte, first byte, bits int, value uint64) []byte {
	most := uint64(1)<<bits - 1
	if value < most {
		return append(to, first|byte(value))
	}
	to = append(to, first|byte(most))
	for value -= most; value >= 128; value >>= 7 {
		to = append(to, byte(value)|0x80)
	}
	return append(to, byte(value))
}

// Request is the header list of a gRPC call, as ordinary clients send it.
func Request(path string) []Field {
	return []Field{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"user-agent", "wire"}, {"te", "trailers"},
	}
}
