package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"

	"golang.org/x/net/http2"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// shakeHands makes o.total connections with a full TLS handshake each, o.clients at a time, and closes each once the
// server has sent the first bytes behind it: until then it may still check the client's certificate.
func shakeHands(ctx context.Context, s *session, o options) error {
	config := s.tls
	if config == nil {
		return errors.New("handshake: needs --cacert")
	}
	config = config.Clone()
	config.NextProtos = []string{http2.NextProtoTLS}
	// No session is resumed: there is nowhere to keep one.
	config.ClientSessionCache = nil
	var addresses []string
	for _, endpoint := range o.endpoints {
		parsed, err := url.Parse(endpoint)
		if err != nil {
			return err
		}
		addresses = append(addresses, parsed.Host)
	}
	s.drive(o, func(_ *clientv3.Client, number int) error {
		return shakeHandsOnce(ctx, addresses[number%len(addresses)], config)
	})
	return nil
}

func shakeHandsOnce(ctx context.Context, address string, config *tls.Config) error {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	if _, err := connection.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		return err
	}
	_, err = framer.ReadFrame()
	return err
}
