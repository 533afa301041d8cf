package gateway

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// watchers are how many watches this member has, as its metrics say.
func (s *side) watchers(t *testing.T) string {
	t.Helper()
	return s.metric(t, "etcd_debugging_mvcc_watcher_total")
}

// metric is the value of a metric; empty if there is none.
func (s *side) metric(t *testing.T, wanted string) string {
	t.Helper()
	response, err := s.client.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), " "); name == wanted {
			return value
		}
	}
	return ""
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v not yet: %s", patience, what)
		}
	}
}

// line is what a stream has in a line, or a WebSocket in a message.
type line struct {
	Result struct {
		Created  bool
		Canceled bool
		Events   []struct{ Kv struct{ Key, Value string } }
	}
	Error struct {
		Code    int
		Message string
	}
}

func (s *side) watch(ctx context.Context, t *testing.T, body io.Reader) (*json.Decoder, io.Closer) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/watch", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return json.NewDecoder(response.Body), response.Body
}

func next(t *testing.T, lines *json.Decoder) line {
	t.Helper()
	var next line
	if err := lines.Decode(&next); err != nil {
		t.Fatal(err)
	}
	return next
}

const (
	// watches are opened and cancelled; none of them leaves anything behind.
	watches = 1000
	// rounds of them; what the last one leaves behind is compared with what the first one leaves.
	rounds = 3
	// fewFiles may be open after one round and not after another: idle connections, files of the store.
	fewFiles = 50
)

func TestStreams(t *testing.T) {
	t.Parallel()
	s := start(t, *bin)
	t.Run("cancelled watches leave nothing behind", func(t *testing.T) {
		s.cancelledWatchesLeaveNothingBehind(t, s.watchOverHTTP(&http.Client{}))
	})
	t.Run("cancelled watches over HTTP/2 leave nothing behind", func(t *testing.T) {
		s.cancelledWatchesLeaveNothingBehind(t, s.watchOverHTTP(clearHTTP2()))
	})
	t.Run("closed WebSockets leave nothing behind", func(t *testing.T) {
		s.cancelledWatchesLeaveNothingBehind(t, s.watchOverWebSocket)
	})
	t.Run("a lock that waits ends with its client", s.aLockThatWaitsEndsWithItsClient)
	t.Run("a long range is counted as it ended", s.aLongRangeIsCountedAsItEnded)
	t.Run("a watch gets requests while it answers", s.aWatchGetsRequestsWhileItAnswers)
	t.Run("a long message ends its WebSocket", s.aLongMessageEndsItsWebSocket)
	// The last one, since it enables authentication.
	t.Run("a token comes with the WebSocket", s.aTokenComesWithTheWebSocket)
}

// clearHTTP2 is a client that speaks HTTP/2 without TLS.
func clearHTTP2() *http.Client {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// createWatch is a watch of one key.
const createWatch = `{"create_request":{"key":"YQ=="}}`

// watchOverHTTP opens a watch that ends with the context.
func (s *side) watchOverHTTP(client *http.Client) func(ctx context.Context, t *testing.T) {
	other := *s
	other.client = client
	return func(ctx context.Context, t *testing.T) {
		t.Helper()
		lines, _ := other.watch(ctx, t, strings.NewReader(createWatch))
		if !next(t, lines).Result.Created {
			t.Fatal("a watch begins with its creation")
		}
	}
}

// watchOverWebSocket opens a watch whose connection is closed with the context.
func (s *side) watchOverWebSocket(ctx context.Context, t *testing.T) {
	t.Helper()
	socket, err := websocket.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v3/watch", "", "http://page")
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { socket.Close() })
	if err := websocket.Message.Send(socket, createWatch); err != nil {
		t.Fatal(err)
	}
	var heard line
	if err := websocket.JSON.Receive(socket, &heard); err != nil || !heard.Result.Created {
		t.Fatalf("%v: a watch begins with its creation", err)
	}
}

func (s *side) cancelledWatchesLeaveNothingBehind(t *testing.T, open func(ctx context.Context, t *testing.T)) {
	left := func() (files, bytes float64) {
		return s.number(t, "process_open_fds"), s.number(t, `stele_memory_accounted_bytes{component="watches"}`)
	}
	var files, bytes float64
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		for range watches {
			open(ctx, t)
		}
		if got := s.watchers(t); got != fmt.Sprint(watches) {
			t.Errorf("round %d: %s watchers", round, got)
		}
		cancel()
		until(t, "all watchers are gone", func() bool {
			return s.watchers(t) == "0" && s.metric(t, "etcd_debugging_mvcc_watch_stream_total") == "0"
		})
		if round == 0 {
			// Connections end a moment after their streams.
			until(t, "the connections are closed", func() bool {
				files, bytes = left()
				return files < watches
			})
			continue
		}
		until(t, "no more is left than by the first round", func() bool {
			nowFiles, nowBytes := left()
			return nowFiles <= files+fewFiles && nowBytes <= bytes
		})
	}
}

// number is the value of a metric.
func (s *side) number(t *testing.T, name string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(s.metric(t, name), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func (s *side) aLockThatWaitsEndsWithItsClient(t *testing.T) {
	holder := s.send(t, request{path: "/v3/lock/lock", body: `{"name":"bA=="}`, remember: map[string]string{"key": "key"}})
	if holder.Status != http.StatusOK {
		t.Fatal(holder)
	}
	queue := request{path: "/v3/kv/range", body: `{"key":"bA==","range_end":"bQ==","count_only":true}`}
	queued := func(want string) func() bool {
		return func() bool { return find(s.send(t, queue).Body, []string{"count"}) == want }
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	waiting, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/lock/lock", strings.NewReader(`{"name":"bA=="}`))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		response, err := s.client.Do(waiting)
		if err == nil {
			response.Body.Close()
		}
		ended <- err
	}()
	until(t, "the second waits for the lock", queued("2"))
	cancel()
	if <-ended == nil {
		t.Error("two hold the lock")
	}
	until(t, "only the holder is in the queue of the lock", queued("1"))
	// A body without its end is no request: neither before its client goes nor after.
	unfinished, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(unfinished, "POST /v3/lock/lock HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n{\"name\":\"bA==\"}\r\n")
	if err := unfinished.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "only the holder is in the queue of the lock", queued("1"))
	if released := s.send(t, request{path: "/v3/lock/unlock", body: `{"key":"$key"}`}); released.Status != http.StatusOK {
		t.Fatal(released)
	}
	// A count of zero is left out of the JSON.
	until(t, "the lock has no holder", queued("<nil>"))
}

// A call that was answered is counted as answered, however long its answer is.
func (s *side) aLongRangeIsCountedAsItEnded(t *testing.T) {
	const keys = 1200
	for first := 0; first < keys; first += 100 {
		var puts []string
		for key := first; key < first+100; key++ {
			name := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "long/%04d", key))
			puts = append(puts, fmt.Sprintf(`{"request_put":{"key":"%s"}}`, name))
		}
		s.send(t, request{path: "/v3/kv/txn", body: `{"success":[` + strings.Join(puts, ",") + `]}`})
	}
	all := s.send(t, request{path: "/v3/kv/range", body: `{"key":"bG9uZy8=","range_end":"bG9uZzA="}`})
	if count := find(all.Body, []string{"count"}); count != fmt.Sprint(keys) {
		t.Errorf("%s keys", count)
	}
	const canceled = `grpc_server_handled_total{grpc_code="Canceled",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}`
	if got := s.metric(t, canceled); got != "0" {
		t.Errorf("%q ranges were cancelled", got)
	}
}

func (s *side) aWatchGetsRequestsWhileItAnswers(t *testing.T) {
	body, requests := io.Pipe()
	go io.WriteString(requests, `{"create_request":{"key":"YQ=="}}`)
	lines, closer := s.watch(t.Context(), t, body)
	defer closer.Close()
	if !next(t, lines).Result.Created {
		t.Error("not created")
	}
	s.send(t, request{path: "/v3/kv/put", body: `{"key":"YQ==","value":"MQ=="}`})
	if events := next(t, lines).Result.Events; len(events) != 1 || events[0].Kv.Value != "MQ==" {
		t.Errorf("events %v", events)
	}
	io.WriteString(requests, "\n"+`{"cancel_request":{"watch_id":"0"}}`)
	if !next(t, lines).Result.Canceled {
		t.Error("not cancelled")
	}
	io.WriteString(requests, "nonsense\n")
	if failed := next(t, lines).Error; failed.Code != 3 || failed.Message == "" {
		t.Errorf("%+v", failed)
	}
	if err := lines.Decode(&line{}); err != io.EOF {
		t.Errorf("the stream goes on: %v", err)
	}
}

func webSocketsCarryStreams(t *testing.T, s *side) {
	t.Helper()
	address := "ws" + strings.TrimPrefix(s.url, "http") + "/v3/watch"
	socket, err := websocket.Dial(address, "", "http://page")
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		if err := websocket.Message.Send(socket, text); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() (heard line) {
		t.Helper()
		if err := websocket.JSON.Receive(socket, &heard); err != nil {
			t.Fatal(err)
		}
		return heard
	}
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	say(`{"create_request":`)
	say(`{"key":"YQ=="}}`)
	if !hear().Result.Created {
		t.Error("not created")
	}
	say(`{"create_request":{"key":"Yg=="}}`)
	if !hear().Result.Created {
		t.Error("the second not created")
	}
	s.send(t, request{path: "/v3/kv/put", body: `{"key":"YQ==","value":"MQ=="}`})
	if events := hear().Result.Events; len(events) != 1 || events[0].Kv.Value != "MQ==" {
		t.Errorf("events %v", events)
	}
	until(t, "there are two watchers", func() bool { return s.watchers(t) == "2" })
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the watchers are gone with the socket", func() bool { return s.watchers(t) == "0" })
}

// A message may be twice as long as one of gRPC, which is what the value of a key takes as base64, and more.
func (s *side) aLongMessageEndsItsWebSocket(t *testing.T) {
	const longest = 2 * 2 << 20
	for length, isTaken := range map[int]bool{longest: true, longest + 1: false} {
		socket, err := websocket.Dial("ws"+strings.TrimPrefix(s.url, "http")+"/v3/watch", "", "http://page")
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		// The end may come before all has been sent.
		err = websocket.Message.Send(socket, createWatch+strings.Repeat(" ", length-len(createWatch)))
		if isTaken && err != nil {
			t.Fatal(err)
		}
		var heard line
		err = websocket.JSON.Receive(socket, &heard)
		if isTaken != (err == nil && heard.Result.Created) {
			t.Errorf("a message of %d bytes: %+v, %v", length, heard, err)
		}
	}
}

func (s *side) aTokenComesWithTheWebSocket(t *testing.T) {
	for _, r := range users() {
		if s.send(t, r); s.known["token"] != "" {
			break
		}
	}
	for protocols, want := range map[string]bool{"": false, s.known["token"]: true} {
		config, err := websocket.NewConfig("ws"+strings.TrimPrefix(s.url, "http")+"/v3/kv/range", "http://page")
		if err != nil {
			t.Fatal(err)
		}
		if protocols != "" {
			config.Protocol = []string{"Bearer", protocols}
		}
		socket, err := websocket.DialConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		if err := websocket.Message.Send(socket, `{"key":"YQ=="}`); err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if err := websocket.JSON.Receive(socket, &answer); err != nil {
			t.Fatal(err)
		}
		if _, isAnswered := answer["header"]; isAnswered != want {
			t.Errorf("with %q: %v", protocols, answer)
		}
	}
}
