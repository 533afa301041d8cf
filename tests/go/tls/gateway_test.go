package tls

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	"stele.test/cluster"
)

// post asks the JSON gateway, in either version of HTTP.
func post(t *testing.T, url, body string, config *tls.Config, protocol string) (int, string) {
	t.Helper()
	config = config.Clone()
	config.NextProtos = []string{protocol}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocol == "h2"}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: patience}
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if is2 := response.ProtoMajor == 2; is2 != (protocol == "h2") {
		t.Errorf("%s, and not %s", response.Proto, protocol)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestAWebSocketIsServedOverTLS opens one, and a watch on it.
func TestAWebSocketIsServedOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	client := a.client(a.issue(subject{name: "someone", serial: 3}))
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: a.clientFlags("server"), TLS: client})
	address := "wss" + strings.TrimPrefix(c.Members[0].ClientURL, "https") + "/v3/watch"
	config, err := websocket.NewConfig(address, "https://page")
	if err != nil {
		t.Fatal(err)
	}
	config.TlsConfig = client.Clone()
	config.TlsConfig.NextProtos = []string{"http/1.1"}
	socket, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := websocket.Message.Send(socket, `{"create_request":{"key":"YQ=="}}`); err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := websocket.Message.Receive(socket, &answer); err != nil || !strings.Contains(answer, `"created":true`) {
		t.Errorf("%v: %s", err, answer)
	}
}

// Requests with JSON are not those of the user whom a certificate names, and must not seem to be: etcd refuses them.
func TestTheCommonNameOfACertificateIsNoUserOfTheGateway(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	root := a.client(a.issue(subject{name: "root", serial: 3}))
	nameless := a.client(a.issue(subject{file: "nameless", serial: 4}))
	for _, binary := range []string{cluster.EtcdPath(), *bin} {
		// Which name a member was addressed by is proven by TLS, not looked up in a list.
		args := append(a.clientFlags("server"), "--host-whitelist=elsewhere")
		c := cluster.ForTest(t, cluster.Config{Binary: binary, Args: args, TLS: root})
		url := c.Members[0].ClientURL
		for _, protocol := range []string{"http/1.1", "h2"} {
			if status, text := post(t, url+"/v3/kv/put", `{"key":"YQ=="}`, root, protocol); status != http.StatusOK {
				t.Errorf("%s, %s: %d %s", binary, protocol, status, text)
			}
		}
		for path, body := range map[string]string{
			"user/add": `{"name":"root","options":{"no_password":true}}`, "role/add": `{"name":"root"}`,
		} {
			post(t, url+"/v3/auth/"+path, body, root, "http/1.1")
		}
		post(t, url+"/v3/auth/user/grant", `{"user":"root","role":"root"}`, root, "http/1.1")
		if status, text := post(t, url+"/v3/auth/enable", "", root, "http/1.1"); status != http.StatusOK {
			t.Fatalf("%s: %d %s", binary, status, text)
		}
		for _, protocol := range []string{"http/1.1", "h2"} {
			status, text := post(t, url+"/v3/kv/put", `{"key":"YQ=="}`, root, protocol)
			const refusal = "CommonName of client sending a request against gateway will be ignored and not used as expected\n"
			if status != http.StatusBadRequest || text != refusal {
				t.Errorf("%s, %s: %d %s", binary, protocol, status, text)
			}
			// A certificate without a name seems to be no user, so its requests are those of any client without a token:
			// in etcd, of the user whom the member's own certificate names, here of none.
			user := map[string]string{cluster.EtcdPath(): "permission denied", *bin: "user name is empty"}[binary]
			status, text = post(t, url+"/v3/kv/put", `{"key":"YQ=="}`, nameless, protocol)
			if status == http.StatusOK || !strings.Contains(text, user) {
				t.Errorf("%s, %s, without a name: %d %s", binary, protocol, status, text)
			}
		}
	}
}
