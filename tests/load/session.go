package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// dialTimeout bounds the first connection to a server that is said to be ready.
const dialTimeout = 10 * time.Second

// maxMessage lets a client take lists of a million keys.
const maxMessage = 1 << 30

// session is the connections of one load and the record of its requests.
type session struct {
	conns  []*clientv3.Client
	record record
	// tls is how the servers are met; nil in the clear.
	tls *tls.Config
}

func connect(o options) (*session, error) {
	s := &session{}
	if o.cacert != "" {
		files := transport.TLSInfo{CertFile: o.certFile, KeyFile: o.keyFile, TrustedCAFile: o.cacert}
		config, err := files.ClientConfig()
		if err != nil {
			return nil, err
		}
		s.tls = config
	}
	user, password, _ := strings.Cut(o.user, ":")
	for i := range o.conns {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:          []string{o.endpoints[i%len(o.endpoints)]},
			DialTimeout:        dialTimeout,
			MaxCallRecvMsgSize: maxMessage,
			Logger:             zap.NewNop(),
			TLS:                s.tls,
			Username:           user,
			Password:           password,
		})
		if err != nil {
			s.close()
			return nil, err
		}
		s.conns = append(s.conns, client)
	}
	return s, nil
}

func (s *session) close() {
	for _, client := range s.conns {
		// The load is over: how a connection ends makes no difference to it.
		_ = client.Close()
	}
}

// drive makes o.total requests, o.clients at a time, and records each. With a rate, request n is due n/rate seconds
// after the first, and what it took counts from then: a server that stalls is not spared the requests it kept from
// being made.
func (s *session) drive(o options, request func(client *clientv3.Client, number int) error) {
	s.driveUntil(o, func() bool { return true }, request)
}

// driveUntil is drive that goes on after o.total requests until ended says yes.
func (s *session) driveUntil(o options, ended func() bool, request func(client *clientv3.Client, number int) error) {
	var next atomic.Int64
	var done sync.WaitGroup
	s.record.start()
	for worker := range o.clients {
		client := s.conns[worker%len(s.conns)]
		done.Go(func() {
			for number := int(next.Add(1)) - 1; number < o.total || !ended(); number = int(next.Add(1)) - 1 {
				begin := s.due(o, number)
				err := request(client, number)
				s.record.add(time.Since(begin), err)
			}
		})
	}
	done.Wait()
	s.record.stop()
}

// due waits until a request's turn has come and says since when it counts.
func (s *session) due(o options, number int) time.Time {
	if o.rate == 0 {
		return time.Now()
	}
	due := s.record.begin.Add(time.Duration(number) * time.Second / time.Duration(o.rate))
	time.Sleep(time.Until(due))
	return due
}

// key is the number in the eight bytes that etcd's benchmark makes of it, so that both write the same keys.
func key(number int) string {
	bytes := make([]byte, 8)
	binary.PutVarint(bytes, int64(number))
	return string(bytes)
}

// everything is the range of all keys.
func everything(opts ...clientv3.OpOption) (string, []clientv3.OpOption) {
	return "\x00", append(opts, clientv3.WithFromKey())
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
