package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"stele.test/wire"
)

// brokenOff is what a client of grpc-go makes of a message that ends early, whatever the status says. What it says is
// checked by TestAListWhoseHistoryIsGoneSaysSo.
var brokenOff = grpcstatus.Error(codes.Internal, io.ErrUnexpectedEOF.Error())

// readBeforeStall is what a slow client reads. The rest of 60 MiB has no place on the way: the socket has a small
// buffer here and a few MiB there, and three chunks of a MiB wait in the server.
const readBeforeStall = 1 << 20

// stallingConn is a connection that is read up to a point, and from then on when the test lets it.
type stallingConn struct {
	net.Conn
	left    int
	once    sync.Once
	stalled chan struct{}
	goOn    <-chan struct{}
}

func (c *stallingConn) Read(into []byte) (int, error) {
	if c.left <= 0 {
		c.once.Do(func() { close(c.stalled) })
		<-c.goOn
	}
	n, err := c.Conn.Read(into)
	c.left -= n
	return n, err
}

// listed is how a list ended.
type listed struct {
	answer *clientv3.GetResponse
	err    error
}

// listSlowly lists over a connection of its own that stalls, and returns when it has.
func (at *target) listSlowly(ctx context.Context, goOn <-chan struct{}) <-chan listed {
	at.t.Helper()
	stalled, ended := make(chan struct{}), make(chan listed, 1)
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		return &stallingConn{Conn: conn, left: readBeforeStall, stalled: stalled, goOn: goOn}, nil
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: at.other.endpoints, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
	})
	if err != nil {
		at.t.Fatal(err)
	}
	go func() {
		defer client.Close()
		answer, err := client.Get(ctx, "large-", clientv3.WithPrefix())
		ended <- listed{answer, err}
	}()
	select {
	case <-stalled:
	case end := <-ended:
		at.t.Fatalf("a list that is not read has ended: %v", end.err)
	case <-ctx.Done():
		at.t.Fatal("a list has not begun")
	}
	return ended
}

// checkOld checks that an answer is the list as putLarge left it.
func checkOld(answer *clientv3.GetResponse, revision int64) error {
	if answer.Header.Revision != revision || answer.Count != large || len(answer.Kvs) != large || answer.More {
		return fmt.Errorf("%d of %d keys at revision %d, not %d",
			len(answer.Kvs), answer.Count, answer.Header.Revision, revision)
	}
	for i, kv := range answer.Kvs {
		if string(kv.Key) != largeKey(i) || string(kv.Value) != largeValue(i) {
			return fmt.Errorf("the value of %q is not the old one", kv.Key)
		}
	}
	return nil
}

// TestASlowListIsTheOneThatWasAskedFor stalls so many lists as are encoded at once. Another client's lists are answered
// nevertheless, so encoders have given up their turn, and another encoder has to go on with a list when it is read on.
// What was written meanwhile is not in it. If history is gone up to then, such a list fails.
func TestASlowListIsTheOneThatWasAskedFor(t *testing.T) {
	lists := 2 * runtime.NumCPU()
	for name, compacts := range map[string]bool{"overwritten": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			underAttack(t, mostForAnswers+large, func(at *target) {
				at.putLarge()
				failed := at.listThroughChanges(lists, compacts)
				at.logf("%d of %d lists failed", failed, lists)
				if compacts && failed == 0 {
					t.Error("no list needed history that is gone, so none was given up")
				}
			})
		})
	}
}

// listThroughChanges stalls lists, changes what they list, and compacts it if told to; then it reads them to their end.
// It returns how many failed because of that.
func (at *target) listThroughChanges(lists int, compacts bool) (failed int) {
	at.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	before := must[*clientv3.GetResponse](at.t)(at.other.client.Get(ctx, "key")).Header.Revision
	var slow []<-chan listed
	for range lists {
		slow = append(slow, at.listSlowly(ctx, goOn))
	}
	at.expectLists()
	at.changeList(ctx, compacts)
	release()
	for _, ended := range slow {
		end := <-ended
		switch {
		case end.err == nil:
			if err := checkOld(end.answer, before); err != nil {
				at.t.Error(err)
			}
		case compacts && end.err.Error() == brokenOff.Error():
			failed++
		default:
			at.t.Errorf("a slow list: %v", end.err)
		}
	}
	return failed
}

// changeList overwrites the first value of the list and deletes the last one, and compacts the history up to there.
func (at *target) changeList(ctx context.Context, compacts bool) {
	at.t.Helper()
	must[*clientv3.PutResponse](at.t)(at.other.client.Put(ctx, largeKey(0), "new"))
	newest := must[*clientv3.DeleteResponse](at.t)(at.other.client.Delete(ctx, largeKey(large-1))).Header.Revision
	if compacts {
		must[*clientv3.CompactResponse](at.t)(at.other.client.Compact(ctx, newest))
	}
}

// TestAListWhoseHistoryIsGoneSaysSo is the same over raw connections, whose windows end after the first MiB: the status
// of a list that fails names the compaction.
func TestAListWhoseHistoryIsGoneSaysSo(t *testing.T) {
	lists := 2 * runtime.NumCPU()
	underAttack(t, mostForAnswers+large, func(at *target) {
		at.putLarge()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var slow []*answers
		for range lists {
			c := at.open(uint32(wire.InitialWindowSize), readBeforeStall)
			asked := wire.AppendWord(nil, wire.WindowUpdate, 0, 1<<30)
			if err := c.Send(append(asked, list(1, "large-")...)); err != nil {
				t.Fatal(err)
			}
			a := answersOf(at, c)
			if got, said := a.until(1, readBeforeStall); got != readBeforeStall {
				t.Fatalf("%d bytes of a list have come: %v", got, said)
			}
			slow = append(slow, a)
		}
		at.expectLists()
		at.changeList(ctx, true)
		failed := 0
		for _, a := range slow {
			if err := a.Send(wire.AppendWord(nil, wire.WindowUpdate, 1, 1<<30)); err != nil {
				t.Fatal(err)
			}
			got, trailers := a.until(1, 1<<30)
			switch trailers["grpc-status"] {
			case fmt.Sprint(int(codes.OutOfRange)):
				failed++
				if said := trailers["grpc-message"]; said != "etcdserver: mvcc: required revision has been compacted" {
					t.Errorf("a list failed because of %q", said)
				}
			case "0":
				if got+readBeforeStall < large<<20 {
					t.Errorf("a list ended well after %d bytes", got)
				}
			default:
				t.Errorf("a list ended with %v", trailers)
			}
		}
		at.logf("%d of %d lists failed", failed, lists)
		if failed == 0 {
			t.Error("no list needed history that is gone, so none was given up")
		}
	})
}
