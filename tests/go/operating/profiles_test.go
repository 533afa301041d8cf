package operating

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// pprof is what Go's tool says of a profile.
func pprof(t *testing.T, url string, flags ...string) string {
	t.Helper()
	tool := exec.Command("go", append(append([]string{"tool", "pprof", "-top"}, flags...), url)...)
	tool.Env = append(tool.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := tool.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestGoReadsProfiles: a member that is busy shows functions, and its memory shows components.
func TestGoReadsProfiles(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--enable-pprof"}})
	url := c.Members[0].ClientURL
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.Put(t.Context(), "key", "value")
		}
	}()
	cpu := pprof(t, url+"/debug/pprof/profile", "-seconds=1")
	cancel()
	<-done
	if !strings.Contains(cpu, "Type: cpu") || !strings.Contains(cpu, "::") {
		t.Errorf("no functions in %s", cpu)
	}
	heap := pprof(t, url+"/debug/pprof/heap", "-nodefraction=0")
	for _, text := range []string{"Type: inuse_space", "index", "not_accounted"} {
		if !strings.Contains(heap, text) {
			t.Errorf("no %s in %s", text, heap)
		}
	}
	for path, text := range map[string]string{
		"/debug/pprof/":          "profile?seconds=30",
		"/debug/pprof/cmdline":   "--enable-pprof",
		"/debug/vars":            `"allocator":{`,
		"/debug/pprof/goroutine": "Unknown profile",
	} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), text) {
			t.Errorf("%s: %v: %s", path, err, body)
		}
	}
}
