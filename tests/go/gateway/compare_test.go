// Package gateway sends the same JSON requests to a real etcd and to Stele and compares statuses, headers and bodies,
// field by field; and checks with a real process what clients of the JSON gateway meet besides: streams, cancellation,
// WebSockets, certificates.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// patience is what a server has for one request; reaching it is a finding.
const patience = 60 * time.Second

// side is one member, and what its answers have said that later requests repeat.
type side struct {
	url    string
	client *http.Client
	known  map[string]string
}

func start(t *testing.T, binary string, args ...string) *side {
	t.Helper()
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Args: append(args, "--bcrypt-cost=4")})
	return &side{url: c.Members[0].ClientURL, client: &http.Client{}, known: map[string]string{}}
}

// both are etcd and the server to test, in this order.
func both(t *testing.T, args ...string) []*side {
	t.Helper()
	return []*side{start(t, cluster.EtcdPath(), args...), start(t, *bin, args...)}
}

// request is one request and how its answers are compared.
type request struct {
	path, body string
	method     string
	headers    map[string]string
	// remember are fields of the answer, such as member.ID, by the name under which a later body has them: $name.
	remember map[string]string
	// anyText: the text of the error is the server's own.
	anyText bool
	// firstLine: the answer is a stream that does not end by itself; its first line is compared.
	firstLine bool
}

// answer is what is compared.
type answer struct {
	Status  int
	Headers map[string]string
	Body    any
}

// compared are the headers that clients may look at.
var compared = []string{
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Allow",
	"Content-Type", "Grpc-Metadata-Content-Type", "Location", "Trailer", "Www-Authenticate", "X-Content-Type-Options",
}

func (s *side) send(t *testing.T, r request) answer {
	t.Helper()
	body := r.body
	for name, value := range s.known {
		body = strings.ReplaceAll(body, "$"+name, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	sent, err := http.NewRequestWithContext(ctx, method, s.url+r.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.headers {
		for known, is := range s.known {
			value = strings.ReplaceAll(value, "$"+known, is)
		}
		sent.Header.Set(name, value)
	}
	response, err := s.client.Do(sent)
	if err != nil {
		t.Fatalf("%s %s: %v", r.path, r.body, err)
	}
	defer response.Body.Close()
	got := answer{Status: response.StatusCode, Headers: map[string]string{}}
	for _, name := range compared {
		if value := response.Header.Values(name); value != nil {
			got.Headers[name] = strings.Join(value, "|")
		}
	}
	got.Body = read(t, response.Body, r.firstLine)
	for name, field := range r.remember {
		s.known[name] = find(got.Body, strings.Split(field, "."))
	}
	got.Body = canonical(got.Body)
	if error, ok := got.Body.(map[string]any); ok && r.anyText && got.Status != http.StatusOK && error["message"] != "" {
		error["message"] = "some text"
	}
	return got
}

// read decodes all JSON values of a body, or the first one; what is no JSON stays a text.
func read(t *testing.T, body io.Reader, firstLine bool) any {
	t.Helper()
	var seen bytes.Buffer
	decoder := json.NewDecoder(io.TeeReader(body, &seen))
	var values []any
	for {
		var value any
		err := decoder.Decode(&value)
		if err == io.EOF {
			break
		}
		if err != nil {
			if _, err := io.Copy(&seen, body); err != nil {
				t.Fatal(err)
			}
			return seen.String()
		}
		if values = append(values, value); firstLine {
			break
		}
	}
	if len(values) == 1 {
		return values[0]
	}
	return values
}

func find(value any, path []string) string {
	for _, name := range path {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return fmt.Sprint(value)
}

// own are fields whose values are a server's own. That they are there, and what they are, is compared.
var own = map[string]bool{
	"cluster_id": true, "member_id": true, "memberID": true, "raft_term": true, "raftTerm": true, "raftIndex": true,
	"raftAppliedIndex": true, "dbSize": true, "dbSizeInUse": true, "dbSizeQuota": true, "leader": true, "token": true,
	"hash": true, "remaining_bytes": true, "blob": true, "peerURLs": true, "clientURLs": true, "version": true,
	"storageVersion": true, "TTL": true, "downgradeInfo": true,
}

// canonical replaces what is a server's own by its kind. A member's id is a server's own; that of a lease is the
// client's.
func canonical(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = canonical(value[i])
		}
	case map[string]any:
		_, isMember := value["peerURLs"]
		for name, field := range value {
			_, isText := field.(string)
			_, isNumber := field.(float64)
			switch {
			case name == "version" && value["create_revision"] != nil:
			case own[name] && (isText || isNumber) || isMember && name == "ID":
				value[name] = fmt.Sprintf("a %T", field)
			case own[name] && name != "leader":
				value[name] = "some"
			case name == "members":
				// They are listed in the order of their ids.
				members, _ := canonical(field).([]any)
				slices.SortFunc(members, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				value[name] = members
			default:
				value[name] = canonical(field)
			}
		}
	}
	return value
}

// compare sends requests to both sides, one after the other.
func compare(t *testing.T, sides []*side, requests []request) {
	t.Helper()
	for _, r := range requests {
		expected, got := sides[0].send(t, r), sides[1].send(t, r)
		if !reflect.DeepEqual(expected, got) {
			t.Errorf("%s %s %.200s %v\n etcd: %v\nstele: %v", r.method, r.path, r.body, r.headers, expected, got)
		}
	}
}

// contract are the paths of the gateway, as etcd publishes them.
func contract(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../crates/gateway/tests/contract/routes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		if path, _, found := strings.Cut(line, "\t"); found && !strings.HasPrefix(line, "#") {
			paths = append(paths, strings.TrimPrefix(path, "POST "))
		}
	}
	return paths
}

func TestEveryRouteAnswersAsEtcdDoes(t *testing.T) {
	t.Parallel()
	sides := both(t)
	requests := slices.Concat(calls(), faults(), users())
	for _, path := range contract(t) {
		if !slices.ContainsFunc(requests, func(r request) bool { return r.path == path }) {
			t.Errorf("%s is not asked for", path)
		}
	}
	compare(t, sides, requests)
	for _, s := range sides {
		webSocketsCarryStreams(t, s)
	}
}

// TestRequestsOverHTTP2AreAnsweredAsOverHTTP1 asks etcd over HTTP/1.1 and Stele over HTTP/2: etcd has JSON over HTTP/2
// with TLS only.
func TestRequestsOverHTTP2AreAnsweredAsOverHTTP1(t *testing.T) {
	t.Parallel()
	sides := both(t)
	sides[1].client = clearHTTP2()
	compare(t, sides, slices.Concat(calls(), users()))
	response, err := sides[1].client.Get(sides[1].url + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 {
		t.Errorf("it spoke %s", response.Proto)
	}
}

func TestWithoutTheGatewayItsPathsAreUnknown(t *testing.T) {
	compare(t, both(t, "--enable-grpc-gateway=false", "--cors=http://page:80"), []request{
		{path: "/v3/kv/range", body: `{"key":"YQ=="}`},
		{path: "/v3/kv/range", method: http.MethodOptions, headers: map[string]string{"Origin": "http://page:80"}},
		{path: "/version", method: http.MethodPost, headers: map[string]string{"Origin": "http://other:80"}},
	})
}
