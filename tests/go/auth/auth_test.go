// Package auth compares authentication and roles with a real etcd, answer by answer, and checks with real processes
// that what others left open stays closed.
package auth

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// The least cost, so that hashing takes no time.
var flags = []string{"--bcrypt-cost=4"}

// callTimeout is what a server has for one call; reaching it is a finding.
const callTimeout = 60 * time.Second

// server is one member and a plain connection to it: clientv3 would retry, and hide what was really answered.
type server struct {
	t       *testing.T
	cluster *cluster.Cluster
	conn    *grpc.ClientConn
	// tokens are those of users, as far as they authenticated.
	tokens map[string]string
}

func start(t *testing.T, binary string, size int, more ...string) []*server {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Size: size, Args: append(more, flags...)})
	return connectedAll(t, c)
}

// connected is the first member of a cluster.
func connected(t *testing.T, c *cluster.Cluster) *server { return connectedAll(t, c)[0] }

func connectedAll(t *testing.T, c *cluster.Cluster) []*server {
	t.Helper()
	var servers []*server
	tokens := map[string]string{}
	for _, m := range c.Members {
		conn, err := grpc.NewClient(m.ClientURL[len("http://"):],
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		servers = append(servers, &server{t: t, cluster: c, conn: conn, tokens: tokens})
	}
	return servers
}

// as is a context with the token of a user; that of no user for the empty name, and a wrong one for "?".
func (s *server) as(user string) context.Context {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), callTimeout)
	s.t.Cleanup(cancel)
	switch user {
	case "":
		return ctx
	case "?":
		return metadata.AppendToOutgoingContext(ctx, "token", "abcdefghijklmnop.1")
	}
	token, ok := s.tokens[user]
	if !ok {
		s.t.Fatalf("%s has not authenticated", user)
	}
	return metadata.AppendToOutgoingContext(ctx, "token", token)
}

func (s *server) auth() pb.AuthClient               { return pb.NewAuthClient(s.conn) }
func (s *server) kv() pb.KVClient                   { return pb.NewKVClient(s.conn) }
func (s *server) lease() pb.LeaseClient             { return pb.NewLeaseClient(s.conn) }
func (s *server) maintenance() pb.MaintenanceClient { return pb.NewMaintenanceClient(s.conn) }
func (s *server) members() pb.ClusterClient         { return pb.NewClusterClient(s.conn) }

// login authenticates a user and keeps the token.
func (s *server) login(user, password string) (*pb.AuthenticateResponse, error) {
	response, err := s.auth().Authenticate(s.as(""), &pb.AuthenticateRequest{Name: user, Password: password})
	if err == nil {
		s.tokens[user] = response.Token
	}
	return response, err
}

// watch creates a watch; it is canceled at the end of the test.
func (s *server) watch(user string, request *pb.WatchCreateRequest) pb.Watch_WatchClient {
	s.t.Helper()
	stream, err := pb.NewWatchClient(s.conn).Watch(s.as(user))
	if err != nil {
		s.t.Fatal(err)
	}
	create := &pb.WatchRequest_CreateRequest{CreateRequest: request}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
		s.t.Fatal(err)
	}
	return stream
}

// outcome is what a client sees of an answer, without what differs between any two clusters.
func outcome(message proto.Message, err error) string {
	if err != nil {
		st := status.Convert(err)
		return fmt.Sprintf("%s %q", st.Code(), st.Message())
	}
	message = proto.Clone(message)
	clear(message.ProtoReflect())
	return strings.Join(strings.Fields(fmt.Sprint(message)), " ")
}

// clear removes ids, terms and tokens, also of nested messages.
func clear(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch field.Name() {
		case "cluster_id", "member_id", "raft_term":
			message.Clear(field)
		case "token":
			message.Set(field, protoreflect.ValueOfString("a token"))
		default:
			if field.Kind() == protoreflect.MessageKind && !field.IsMap() {
				if field.IsList() {
					for i := range value.List().Len() {
						clear(value.List().Get(i).Message())
					}
				} else {
					clear(value.Message())
				}
			}
		}
		return true
	})
}

// must fails the test unless the call succeeded.
func must[M any](t *testing.T) func(M, error) M {
	return func(message M, err error) M {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
}

// expect fails the test unless the call was refused with this text.
func expect(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || status.Convert(err).Message() != text {
		t.Errorf("%s: %v instead of %q", what, err, text)
	}
}

// expectAny is for errors whose text depends on who is first.
func expectAny(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	}
}

// cancelable is a context with the token of a user, which the test cancels.
func (s *server) cancelable(user string) (context.Context, context.CancelFunc) {
	return context.WithCancel(s.as(user))
}

func lockWith(s *server, as, name string) error {
	_, err := v3lockpb.NewLockClient(s.conn).Lock(s.as(as), &v3lockpb.LockRequest{Name: []byte(name)})
	return err
}

func leaderWith(s *server, as, name string) error {
	_, err := v3electionpb.NewElectionClient(s.conn).Leader(s.as(as), &v3electionpb.LeaderRequest{Name: []byte(name)})
	return err
}

// saved is a backup that root takes.
func saved(t *testing.T, s *server) []byte {
	t.Helper()
	stream, err := s.maintenance().Snapshot(s.as("root"), &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part.Blob...)
	}
}
