package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"time"
)

// Conn is a TCP connection on which frames are read. It is used by one goroutine.
type Conn struct {
	tcp    *net.TCPConn
	reader *bufio.Reader
	head   [lengthOfHead]byte
}

// Address is the host and port of a member's URL.
func Address(clientURL string) string {
	parsed, err := url.Parse(clientURL)
	if err != nil {
		return clientURL
	}
	return parsed.Host
}

// Dial connects and sends nothing. From is the local IP address, or nil.
func Dial(address string, from net.IP) (*Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if from != nil {
		dialer.LocalAddr = &net.TCPAddr{IP: from}
	}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	return &Conn{tcp: tcp, reader: bufio.NewReaderSize(tcp, 4<<10)}, nil
}

// Open connects and greets as a client does, with settings in pairs of identifier and value.
func Open(address string, settings ...uint32) (*Conn, error) {
	c, err := Dial(address, nil)
	if err != nil {
		return nil, err
	}
	if err := c.Send(AppendSettings([]byte(Preface), settings...)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Send writes bytes as they are.
func (c *Conn) Send(data []byte) error {
	_, err := c.tcp.Write(data)
	return err
}

// Next reads a frame. Its payload is the caller's.
func (c *Conn) Next() (Frame, error) {
	if _, err := io.ReadFull(c.reader, c.head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{
		Type: Type(c.head[3]), Flags: c.head[4], Stream: binary.BigEndian.Uint32(c.head[5:]) &^ (1 << 31),
		Payload: make([]byte, int(c.head[0])<<16|int(c.head[1])<<8|int(c.head[2])),
	}
	_, err := io.ReadFull(c.reader, f.Payload)
	return f, err
}

// SetDeadline bounds all reads and writes.
func (c *Conn) SetDeadline(at time.Time) { _ = c.tcp.SetDeadline(at) }

// SetReceiveBuffer asks for a small or large receive buffer of the socket.
func (c *Conn) SetReceiveBuffer(bytes int) { _ = c.tcp.SetReadBuffer(bytes) }

// Close ends the connection with a reset, so that its port can be used again at once.
func (c *Conn) Close() {
	_ = c.tcp.SetLinger(0)
	_ = c.tcp.Close()
}
