package auth

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector of spans, which keeps the bytes of all that it receives.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu       sync.Mutex
	received []byte
}

// collect starts a collector that ends with the test.
func collect(t *testing.T) *receiver {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	r := &receiver{address: listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return r
}

// Export takes spans.
func (r *receiver) Export(
	_ context.Context, request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	content, err := proto.Marshal(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, content...)
	return &collector.ExportTraceServiceResponse{}, err
}

func (r *receiver) all() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.received)
}

// unpacked is the content of a profile, which is compressed, or of any other answer.
func unpacked(t *testing.T, content []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return content
	}
	return must[[]byte](t)(io.ReadAll(reader))
}

// TestSecretsAreKeptNowhere looks for passwords and tokens in everything that a member leaves behind.
func TestSecretsAreKeptNowhere(t *testing.T) {
	t.Parallel()
	private, _ := keyFiles(t, "ES256")
	for kind, options := range map[string]string{"simple": "simple", "signed": "jwt,sign-method=ES256" + private} {
		t.Run(kind, func(t *testing.T) { secretsAreKeptNowhere(t, "--auth-token="+options) })
	}
}

func secretsAreKeptNowhere(t *testing.T, options string) {
	spans := collect(t)
	s := enabled(t, 1, "--log-level=debug", options, "--enable-pprof", "--enable-distributed-tracing",
		"--distributed-tracing-address="+spans.address, "--distributed-tracing-sampling-rate=1000000")[0]
	s.run(put("ann", "a"), passwd("root", "ann", "a later password"), login("ann", "a later password"))
	_, _ = s.login("ann", "a wrong password")
	gateway := s.cluster.Members[0].ClientURL + "/v3/"
	through := func(call, token, body string) string {
		request := must[*http.Request](t)(http.NewRequestWithContext(s.as(""), http.MethodPost, gateway+call, strings.NewReader(body)))
		request.Header.Set("Authorization", token)
		response := must[*http.Response](t)(http.DefaultClient.Do(request))
		defer response.Body.Close()
		return string(must[[]byte](t)(io.ReadAll(response.Body)))
	}
	var granted struct{ Token string }
	answer := through("auth/authenticate", "", `{"name":"root","password":"the password of root"}`)
	if err := json.Unmarshal([]byte(answer), &granted); err != nil || granted.Token == "" {
		t.Fatalf("%s instead of a token (%v)", answer, err)
	}
	s.tokens["root through the gateway"] = granted.Token
	through("auth/authenticate", "", `{"name":"root","password":"a wrong password"}`)
	if answer := through("kv/put", granted.Token, `{"key":"eA=="}`); !strings.Contains(answer, "revision") {
		t.Errorf("%s instead of a revision", answer)
	}
	member := s.cluster.Members[0]
	backup := saved(t, s)
	debug := map[string][]byte{}
	for _, path := range []string{"/debug/pprof/profile?seconds=1", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/metrics"} {
		response := must[*http.Response](t)(http.Get(member.ClientURL + path))
		debug[path] = must[[]byte](t)(io.ReadAll(response.Body))
		response.Body.Close()
		if response.StatusCode != http.StatusOK || len(debug[path]) == 0 {
			t.Errorf("%s: %s, %d bytes", path, response.Status, len(debug[path]))
		}
	}
	secrets := []string{"the password of", "a later password", "a wrong password"}
	for _, token := range s.tokens {
		// The letters of a simple token, the claims and the signature of a signed one.
		for _, part := range strings.Split(token, ".") {
			if len(part) >= 16 && !strings.HasPrefix(part, "eyJhbGci") {
				secrets = append(secrets, part)
			}
		}
	}
	if err := member.Terminate(); err != nil {
		t.Fatal(err)
	}
	look := func(path string, content []byte) {
		for _, secret := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s has %q", path, secret)
			}
		}
	}
	look("the backup", backup)
	for path, content := range debug {
		look(path, unpacked(t, content))
	}
	exported := spans.all()
	look("the spans", exported)
	for _, name := range []string{"Auth/Authenticate", "Auth/UserChangePassword", "KV/Put"} {
		if !bytes.Contains(exported, []byte(name)) {
			t.Errorf("no span of %s", name)
		}
	}
	files := 0
	err := filepath.WalkDir(filepath.Dir(member.DataDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		files++
		look(path, content)
		return err
	})
	if err != nil || files < 3 {
		t.Fatalf("%d files: %v", files, err)
	}
	look("the log", []byte(member.LogTail(1<<20)))
}
