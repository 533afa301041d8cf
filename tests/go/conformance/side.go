package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// Limits are set low on both systems so that small, fast requests reach them.
const (
	maxTxnOps       = 16
	maxRequestBytes = 4096
	quotaBytes      = 1 << 30
)

// callTimeout is what either system has for one op; reaching it is a difference or a finding.
const callTimeout = 60 * time.Second

// side is one of the two systems: a fresh single member and the connection to it.
type side struct {
	name    string
	cluster *cluster.Cluster
	conn    *grpc.ClientConn
	// caller makes the unary calls of ops: conn, or the gateway.
	caller   grpc.ClientConnInterface
	memberID uint64
	streams  map[int]*watchStream
	// tokens are those that users were given last.
	tokens map[string]string
	// tamper, when set, falsifies what this side answered: it is how the judge itself is tested.
	tamper func(op, []answer) []answer
}

func newSide(ctx context.Context, name, binary string, more ...string) (*side, error) {
	c, err := cluster.Start(ctx, cluster.Config{Binary: binary, Args: append([]string{
		fmt.Sprintf("--max-txn-ops=%d", maxTxnOps),
		fmt.Sprintf("--max-request-bytes=%d", maxRequestBytes),
		fmt.Sprintf("--quota-backend-bytes=%d", quotaBytes),
	}, more...)})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &side{name: name, cluster: c, streams: map[int]*watchStream{}, tokens: map[string]string{}}
	if err := s.connect(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// connect speaks gRPC directly: clientv3 would retry and translate, and hide what the server really said.
func (s *side) connect(ctx context.Context) error {
	target := s.cluster.Members[0].ClientURL[len("http://"):]
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return err
	}
	s.conn, s.caller = conn, conn
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	status, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("first status: %w", err)
	}
	s.memberID = status.GetHeader().GetMemberId()
	return nil
}

// callOverGateway sends unary calls to the gateway from now on.
func (s *side) callOverGateway() error {
	routes, err := gatewayRoutes()
	if err != nil {
		return err
	}
	s.caller = &gatewayConn{ClientConnInterface: s.conn, url: s.cluster.Members[0].ClientURL, routes: routes}
	return nil
}

func (s *side) close() {
	for _, stream := range s.streams {
		stream.close()
	}
	if s.conn != nil {
		s.conn.Close()
	}
	if err := s.cluster.Close(); err != nil {
		fmt.Println("close", s.name, err)
	}
}

// do runs one op on this side.
func (s *side) do(ctx context.Context, o op, known revisions) []answer {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := o.run(ctx, s, known)
	if s.tamper != nil {
		answers = s.tamper(o, answers)
	}
	return answers
}

// nameMember replaces this side's own member id by one that is equal on both sides.
func (s *side) nameMember(id uint64) uint64 {
	if id == s.memberID {
		return selfMember
	}
	return id
}

// nameURLs replaces this side's own addresses likewise.
func (s *side) nameURLs(urls []string) []string {
	m := s.cluster.Members[0]
	named := make([]string, len(urls))
	for i, url := range urls {
		switch url {
		case m.ClientURL:
			named[i] = "client"
		case m.PeerURL:
			named[i] = "peer"
		default:
			named[i] = url
		}
	}
	return named
}
