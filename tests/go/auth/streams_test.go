package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// largeKeys are in [b, c), with values of 1,000 KiB: their parts are longer than what waits between a member and a
// client that does not read.
const largeKeys = 32

// large is a member with auth that has the large keys; adm is a second user with the role root.
func large(t *testing.T, more ...string) *server {
	t.Helper()
	s := enabled(t, 1, append(more, "--max-request-bytes=1048576")...)[0]
	s.run(userAdd("root", "adm", "the password of adm"), grant("root", "adm", "root"), login("adm", "the password of adm"),
		login("root", "the password of root"))
	s.putLarge("root")
	return s
}

func (s *server) putLarge(as string) {
	s.t.Helper()
	value := bytes.Repeat([]byte("v"), 1000<<10)
	for n := range largeKeys {
		request := &pb.PutRequest{Key: fmt.Appendf(nil, "b%02d", n), Value: value}
		must[*pb.PutResponse](s.t)(s.kv().Put(s.as(as), request))
	}
}

// next waits for a part of a stream.
type next func() error

// begun is a stream of which one part has come. A member makes two backups at once, and one that has ended counts until
// what made it has noticed: it is asked again.
func begun[M any](t *testing.T, begin func() (receive func() (M, error), err error)) next {
	t.Helper()
	for {
		receive, err := begin()
		if err == nil {
			_, err = receive()
		}
		if err == nil {
			return func() error {
				_, err := receive()
				return err
			}
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// rest is how many parts come until the end, and how it ended.
func rest(next next) (parts int, err error) {
	for {
		if err = next(); err != nil {
			return parts, err
		}
		parts++
	}
}

func (s *server) rangeStream(as string) next {
	s.t.Helper()
	return begun(s.t, func() (func() (*pb.RangeStreamResponse, error), error) {
		stream, err := s.kv().RangeStream(s.as(as), &pb.RangeRequest{Key: []byte("b"), RangeEnd: []byte("c")})
		if err != nil {
			return nil, err
		}
		return stream.Recv, nil
	})
}

func (s *server) snapshot(as string) next {
	s.t.Helper()
	return begun(s.t, func() (func() (*pb.SnapshotResponse, error), error) {
		stream, err := s.maintenance().Snapshot(s.as(as), &pb.SnapshotRequest{})
		if err != nil {
			return nil, err
		}
		return stream.Recv, nil
	})
}

// opened is a call of one of Stele's own methods, with an empty request. Its messages are not read.
func (s *server) opened(ctx context.Context, method string) (receive func() (*emptypb.Empty, error), err error) {
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err == nil {
		err = stream.SendMsg(&emptypb.Empty{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	return func() (*emptypb.Empty, error) {
		message := &emptypb.Empty{}
		return message, stream.RecvMsg(message)
	}, err
}

// base is a stream of Backup.Base.
func (s *server) base(as string) next {
	s.t.Helper()
	return begun(s.t, func() (func() (*emptypb.Empty, error), error) { return s.opened(s.as(as), "/stelepb.Backup/Base") })
}

// endsEarly expects a stream to end with this error before all of the data has come, in parts of at most 1 MiB.
func endsEarly(t *testing.T, what string, next next, text string, allParts int) {
	t.Helper()
	parts, err := rest(next)
	if status.Convert(err).Message() != text || parts >= allParts {
		t.Errorf("%s: %d parts, then %v instead of %q", what, parts, err, text)
	}
}

// TestARangeStreamEndsWhenItsUserLosesTheRange revokes the role after the first part.
func TestARangeStreamEndsWhenItsUserLosesTheRange(t *testing.T) {
	t.Parallel()
	s := large(t)
	permitted, roots := s.rangeStream("ann"), s.rangeStream("root")
	s.run(revoke("root", "ann", "r"))
	endsEarly(t, "a stream of ann", permitted, denied, largeKeys-1)
	if _, err := rest(roots); !errors.Is(err, io.EOF) {
		t.Errorf("a stream of root: %v", err)
	}
}

// TestARangeStreamOutlivesItsToken changes a user whom the stream does not concern, and has ann's token end.
func TestARangeStreamOutlivesItsToken(t *testing.T) {
	t.Parallel()
	private, _ := keyFiles(t, "ES256")
	for kind, options := range map[string]string{"simple": "simple", "signed": "jwt,sign-method=ES256" + private} {
		t.Run(kind, func(t *testing.T) {
			s := large(t, "--auth-token="+options)
			s.run(login("ann", "the password of ann"))
			stream := s.rangeStream("ann")
			s.run(userAdd("root", "bob", "x"), passwd("root", "ann", "another"))
			if parts, err := rest(stream); !errors.Is(err, io.EOF) || parts != largeKeys-1 {
				t.Errorf("%d parts, then %v", parts, err)
			}
		})
	}
}

// backups are the streams that have all data of a member, hashes of passwords included, and how many parts they have.
func (s *server) backups() map[string]func(as string) next {
	return map[string]func(as string) next{"snapshot": s.snapshot, "base": s.base}
}

// blobParts are the parts of a backup of the large keys, whose messages have at most 64 KiB of it.
const blobParts = largeKeys * 1000 / 64

// TestABackupEndsWhenItsUserIsNotRootAnyMore takes the role away, and deletes the user, after the first part.
func TestABackupEndsWhenItsUserIsNotRootAnyMore(t *testing.T) {
	t.Parallel()
	s := large(t)
	for what, backup := range s.backups() {
		revoked, roots := backup("adm"), backup("root")
		s.run(userAdd("root", "for "+what, "x"), revoke("root", "adm", "root"))
		endsEarly(t, what+" of a user without the role", revoked, denied, blobParts)
		if _, err := rest(roots); !errors.Is(err, io.EOF) {
			t.Errorf("%s of root: %v", what, err)
		}
		s.run(grant("root", "adm", "root"), login("adm", "the password of adm"))
		deleted := backup("adm")
		s.run(userDelete("root", "adm"))
		endsEarly(t, what+" of a deleted user", deleted, "etcdserver: user name not found", blobParts)
		s.run(userAdd("root", "adm", "the password of adm"), grant("root", "adm", "root"), login("adm", "the password of adm"))
	}
}

// TestABackupOfNoUserEndsWhenAuthIsEnabled begins it before.
func TestABackupOfNoUserEndsWhenAuthIsEnabled(t *testing.T) {
	t.Parallel()
	s := secured(t, 1, "--max-request-bytes=1048576")[0]
	s.putLarge("")
	for what, backup := range s.backups() {
		stream := backup("")
		s.run(enable(""), login("root", "the password of root"))
		endsEarly(t, what+" of no user", stream, noUser, blobParts)
		s.run(disable("root"))
	}
}

// TestSteleOwnMethodsNeedRoot calls those that etcd does not have, as each kind of caller.
func TestSteleOwnMethodsNeedRoot(t *testing.T) {
	t.Parallel()
	s := enabled(t, 1)[0]
	for _, method := range []string{"/stelepb.Backup/Base", "/stelepb.Backup/Entries", "/stelepb.Admin/Reload"} {
		call := func(ctx context.Context) error {
			receive, err := s.opened(ctx, method)
			if err == nil {
				_, err = receive()
			}
			return err
		}
		expect(t, method+" of no user", call(s.as("")), noUser)
		expect(t, method+" with a wrong token", call(s.as("?")), invalid)
		expect(t, method+" of a user", call(s.as("ann")), denied)
		if err := call(s.as("root")); err != nil {
			t.Errorf("%s of root: %v", method, err)
		}
	}
}
