package tls

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stele.test/cluster"
)

// heard is an answer over HTTP.
type heard struct {
	status        int
	content, body string
	grpcStatus    string
	isHTTP2       bool
	// failed means that there was no answer.
	failed bool
}

// TestURLsOfHTTPAloneSpeakHTTP2: where there is no gRPC, a client that offers HTTP/2 gets it, and one of HTTP/1.1 that. A
// request of gRPC gets what etcd gives: it is one for a path that does not exist.
func TestURLsOfHTTPAloneSpeakHTTP2(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	const grpcHost, metricsHost = "127.1.1.1", "127.1.1.3"
	a.issue(subject{name: "server", hosts: append(append([]string{}, hosts...), grpcHost, metricsHost), serial: 2})
	alice := a.client(a.issue(subject{name: "alice", serial: 3}))
	answers := map[string]map[string]heard{}
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		var metrics, grpcURL string
		c := cluster.ForTest(t, cluster.Config{
			Binary: binary, Args: a.clientFlags("server"), TLS: alice,
			Prepare: func(m *cluster.Member, _, _ string) error {
				// The port is this test's on every loopback address.
				port := must(url.Parse(m.ClientURL)).Port()
				metrics = "https://" + metricsHost + ":" + port
				grpcURL = "https://" + grpcHost + ":" + port
				m.AddFlag("--listen-client-urls=" + grpcURL)
				m.AddFlag("--listen-metrics-urls=" + metrics)
				m.AddFlag("--listen-client-http-urls=" + m.ClientURL)
				return nil
			},
		})
		member := c.Members[0].ClientURL
		found := map[string]heard{}
		for _, protocol := range []string{"http/1.1", "h2"} {
			found[protocol+" health"] = ask(t, alice, protocol, http.MethodGet, member+"/health", "", "")
			found[protocol+" health of the metrics URL"] = ask(t, alice, protocol, http.MethodGet, metrics+"/health", "", "")
			found[protocol+" none"] = ask(t, alice, protocol, http.MethodGet, member+"/none", "", "")
			call := ask(t, alice, protocol, http.MethodPost, member+"/etcdserverpb.KV/Range", "application/grpc", "\x00\x00\x00\x00\x03\x0a\x01k")
			found[protocol+" gRPC"] = call
			put := ask(t, alice, protocol, http.MethodPost, member+"/v3/kv/put", "application/json", `{"key":"aw=="}`)
			// The rest of it is not equal in two members.
			put.body = ""
			found[protocol+" JSON"] = put
			// Where there is gRPC alone.
			found[protocol+" health of the gRPC URL"] = attempt(t, alice, protocol, http.MethodGet, grpcURL+"/health", "", "")
			served := attempt(t, alice, protocol, http.MethodPost, grpcURL+"/etcdserverpb.KV/Range", "application/grpc", "\x00\x00\x00\x00\x03\x0a\x01k")
			// The answer has the identity of the cluster.
			served.body = ""
			found[protocol+" gRPC of the gRPC URL"] = served
			scrape := ask(t, alice, protocol, http.MethodGet, metrics+"/metrics", "", "")
			if scrape.status != http.StatusOK || !strings.Contains(scrape.body, "etcd_server_has_leader 1") {
				t.Errorf("%s, %s: the metrics are %d", binary, protocol, scrape.status)
			}
		}
		answers[binary] = found
	}
	if served := answers[*bin]["h2 gRPC of the gRPC URL"]; served.grpcStatus != "0" {
		t.Errorf("a call of the gRPC URL: %+v", served)
	}
	for name, theirs := range answers[cluster.EtcdPath()] {
		if ours := answers[*bin][name]; ours != theirs {
			t.Errorf("%s\netcd:  %+v\nstele: %+v", name, theirs, ours)
		}
		if is2 := strings.HasPrefix(name, "h2"); theirs.isHTTP2 != is2 && !theirs.failed {
			t.Errorf("%s: over the other version", name)
		}
	}
}

// ask sends a request in a version of HTTP, and there must be an answer.
func ask(t *testing.T, config *tls.Config, protocol, method, url, content, body string) heard {
	t.Helper()
	answer := attempt(t, config, protocol, method, url, content, body)
	if answer.failed {
		t.Fatalf("%s %s: no answer", protocol, url)
	}
	return answer
}

// attempt sends a request in a version of HTTP.
func attempt(t *testing.T, config *tls.Config, protocol, method, url, content, body string) heard {
	t.Helper()
	config = config.Clone()
	config.NextProtos = []string{protocol}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocol == "h2"}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: patience}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if content != "" {
		request.Header.Set("Content-Type", content)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Logf("%s %s: %v", protocol, url, err)
		return heard{failed: true}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return heard{
		status: response.StatusCode, content: response.Header.Get("Content-Type"), body: string(text),
		grpcStatus: response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status"), isHTTP2: response.ProtoMajor == 2,
	}
}
