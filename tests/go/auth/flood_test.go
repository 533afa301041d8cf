package auth

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"stele.test/cluster"
)

// A flood has more calls than may wait for one source (1,024), on several connections.
const floodConns, floodCalls = 15, 100

// dialFrom connects from an address of this machine.
func (s *server) dialFrom(address string) *grpc.ClientConn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := grpc.NewClient("passthrough:///"+s.cluster.Members[0].ClientURL[len("http://"):],
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
		grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", target)
		}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// TestAFloodOfPasswordsDelaysItsOwnSourceAlone has one address ask for more passwords than can be checked: it has a
// bounded number waiting, and another address is answered before them.
func TestAFloodOfPasswordsDelaysItsOwnSourceAlone(t *testing.T) {
	// Each check takes so long that the flood does not end before the test does.
	s := connected(t, cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--bcrypt-cost=9"}}))
	s.run(userAdd("", "root", "r"), roleAdd("", "root"), grant("", "root", "root"), userAdd("", "ann", "a"), enable(""))
	s.run(login("root", "r"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var checked, refused atomic.Int64
	wrong := &pb.AuthenticateRequest{Name: "none", Password: "wrong"}
	for range floodConns {
		client := pb.NewAuthClient(s.dialFrom("127.0.0.1"))
		for range floodCalls {
			go func() {
				switch _, err := client.Authenticate(ctx, wrong); status.Code(err) {
				case codes.ResourceExhausted:
					refused.Add(1)
				case codes.InvalidArgument:
					checked.Add(1)
				}
			}()
		}
	}
	deadline := time.Now().Add(callTimeout)
	for refused.Load() == 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d passwords were checked, and no call was refused", checked.Load())
		}
		time.Sleep(time.Millisecond)
	}
	before := checked.Load()
	other := pb.NewAuthClient(s.dialFrom("127.0.0.2"))
	must[*pb.AuthenticateResponse](t)(other.Authenticate(s.as(""), &pb.AuthenticateRequest{Name: "ann", Password: "a"}))
	if passed := checked.Load() - before; passed > 500 {
		t.Errorf("%d passwords of the flood were checked before that of another address", passed)
	}
	// What has a token does not wait at all, and nor does what a password was remembered for.
	s.run(put("root", "a"), login("root", "r"))
}

// TestLimitsOfAClientCountByUser has two users on one connection: what one takes is not the other's.
func TestLimitsOfAClientCountByUser(t *testing.T) {
	const rate = 50
	s := start(t, *bin, 1, fmt.Sprintf("--client-max-request-rate=%d", rate))[0]
	s.run(userAdd("", "root", "r"), roleAdd("", "root"), grant("", "root", "root"), roleAdd("", "reader"))
	s.run(permit("", "reader", authpb.READ, "key", ""))
	for _, name := range []string{"ann", "bob"} {
		s.run(userAdd("", name, name), grant("", name, "reader"))
	}
	s.run(enable(""), login("ann", "ann"), login("bob", "bob"))
	ask := func(user string) error {
		_, err := s.kv().Range(s.as(user), &pb.RangeRequest{Key: []byte("key")})
		return err
	}
	var err error
	for calls := 0; err == nil; calls++ {
		if calls > 100*rate {
			t.Fatal("ann was not refused")
		}
		err = ask("ann")
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("ann: %v", err)
	}
	if err := ask("bob"); err != nil {
		t.Errorf("bob, who has taken nothing: %v", err)
	}
}
