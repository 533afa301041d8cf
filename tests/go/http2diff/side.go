package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/http2/hpack"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
	"stele.test/wire"
)

// patience is how long an answer may take. One that takes longer is a difference, or a server that hangs.
const patience = 2 * time.Second

// side is one of the two servers.
type side struct {
	name    string
	cluster *cluster.Cluster
	address string
}

func newSide(ctx context.Context, name, binary string) (*side, error) {
	c, err := cluster.Start(ctx, cluster.Config{Binary: binary, Args: []string{"--log-level=error"}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &side{name: name, cluster: c, address: wire.Address(c.Members[0].ClientURL)}
	if err := s.fill(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// fill puts the values whose ranges do not fit into small windows.
func (s *side) fill(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: s.cluster.Endpoints()})
	if err != nil {
		return err
	}
	defer client.Close()
	for i := range bigValues {
		value := string(bytes.Repeat([]byte{byte('a' + i)}, bigBytes))
		if _, err := client.Put(ctx, fmt.Sprint(bigPrefix, i), value); err != nil {
			return err
		}
	}
	return nil
}

// connection is a connection to one of the servers, and what it has acknowledged so far.
type connection struct {
	*wire.Conn
	decoder *hpack.Decoder
	// settings and pings count the frames that were sent and have not been acknowledged.
	settings, pings int
	// block is a header block whose end has not come; endsStream is the flag of its HEADERS frame.
	block      []byte
	endsStream bool
	streams    map[uint32]*answer
	// end is how the connection ended; empty while it lasts.
	end string
}

// open connects; it says nothing when greet is false.
func (s *side) open(from net.IP, greet bool) (*connection, error) {
	conn, err := wire.Dial(s.address, from)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, decoder: hpack.NewDecoder(4096, nil), streams: map[uint32]*answer{}}
	// A client may allow a larger table than it starts with.
	c.decoder.SetAllowedMaxDynamicTableSize(1 << 20)
	if greet {
		c.settings++
		c.send(greeting())
	}
	return c, nil
}

// send writes; a server that has closed the connection will be noticed when its last frames are read.
func (c *connection) send(data []byte) { _ = c.Send(data) }

// begin sends an op.
func (c *connection) begin(s sent) {
	c.settings += s.settings
	c.pings += s.pings
	c.streams = map[uint32]*answer{}
	for _, stream := range s.streams {
		c.streams[stream.id] = &answer{awaited: stream}
	}
	c.SetDeadline(time.Now().Add(patience))
	c.send(s.bytes)
}

// settle reads until everything awaited of an op has arrived, or the connection has ended.
func (c *connection) settle(s sent) {
	for c.end == "" {
		if c.settings <= 0 {
			c.sendLater()
			if c.pings <= 0 && c.allArrived() {
				break
			}
		}
		frame, err := c.Next()
		if err != nil {
			c.end = endOf(err)
			break
		}
		c.take(frame)
	}
	if c.end == "" && len(s.after) > 0 {
		c.settings += s.afterSettings
		c.send(s.after)
	}
}

func endOf(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer"
	}
	return "closed"
}

func (c *connection) sendLater() {
	for _, a := range c.streams {
		if a.later != nil && !a.arrived() {
			c.send(a.later)
		}
		a.later = nil
	}
}

func (c *connection) allArrived() bool {
	for _, a := range c.streams {
		if !a.arrived() {
			return false
		}
	}
	return true
}

func (c *connection) take(f wire.Frame) {
	switch f.Type {
	case wire.Settings:
		if f.Has(wire.Ack) {
			c.settings--
		}
	case wire.Ping:
		if f.Has(wire.Ack) {
			c.pings--
		}
	case wire.GoAway:
		c.end = "goaway, no error"
		if code := f.Code(); code != wire.NoError {
			c.end = fmt.Sprintf("goaway %d %q", code, trimmed(string(f.Payload[8:])))
		}
	case wire.Headers:
		c.block, c.endsStream = append([]byte(nil), f.Payload...), f.Has(wire.EndStream)
		c.headers(f)
	case wire.Continuation:
		c.block = append(c.block, f.Payload...)
		c.headers(f)
	case wire.Data:
		if a := c.streams[f.Stream]; a != nil {
			a.data(f)
		}
	case wire.RstStream:
		if a := c.streams[f.Stream]; a != nil {
			a.reset(f.Code())
		}
	}
}

// headers decodes a header block that is complete: all of them, as they change the table.
func (c *connection) headers(f wire.Frame) {
	if !f.Has(wire.EndHeaders) {
		return
	}
	fields, err := c.decoder.DecodeFull(c.block)
	if err != nil {
		c.end = fmt.Sprintf("a header block that cannot be decoded: %v", err)
		return
	}
	if a := c.streams[f.Stream]; a != nil {
		a.headers(fields, c.endsStream)
	}
}
