package tls

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// TestTheLoadGeneratorShowsACertificate puts keys over TLS with and without the certificate that the member demands, and
// reads the report for perf-dash.
func TestTheLoadGeneratorShowsACertificate(t *testing.T) {
	t.Parallel()
	if !cluster.IsStele(*bin) {
		t.Skip("the load generator is Stele's")
	}
	a := newAuthority(t, "ours")
	a.issue(subject{name: "server", hosts: hosts, serial: 2})
	loader := a.issue(subject{name: "loader", serial: 3})
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: a.clientFlags("server"), TLS: a.client(loader)})
	endpoint := strings.TrimPrefix(c.Members[0].ClientURL, "https://")
	reports := t.TempDir()
	bench := func(flags ...string) (string, error) {
		words := append([]string{"bench", "put", "--endpoints=" + endpoint, "--cacert=" + a.file("ca.pem"), "--conns=2", "--clients=5",
			"--total=50", "--sequential-keys", "--key-space-size=50"}, flags...)
		cmd := exec.CommandContext(t.Context(), *bin, words...)
		cmd.Env = append(os.Environ(), "ARTIFACTS="+reports)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// Requests that fail are counted, as in etcd's program.
	if out, err := bench(); err != nil || !strings.Contains(out, "Error distribution") || strings.Contains(out, "perf report") {
		t.Errorf("without a certificate: %v\n%s", err, out)
	}
	if out, err := bench("--report-perfdash", "--cert="+a.file("loader.pem"), "--key="+a.file("loader.key")); err != nil || strings.Contains(out, "Error distribution") {
		t.Fatalf("with a certificate: %v\n%s", err, out)
	}
	found, err := connect(t, a.client(loader), c.Members[0].ClientURL).Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || found.Count != 50 {
		t.Errorf("50 keys were put: %v, %v", found, err)
	}

	files := must(filepath.Glob(filepath.Join(reports, "EtcdAPI_benchmark_put_*.json")))
	if len(files) != 1 {
		t.Fatalf("reports: %q", files)
	}
	var report struct {
		Version   string
		DataItems []struct {
			Data, Labels map[string]any
			Unit         string
		}
	}
	if err := json.Unmarshal(must(os.ReadFile(files[0])), &report); err != nil {
		t.Fatal(err)
	}
	if report.Version != "v1" || len(report.DataItems) != 1 {
		t.Fatalf("report: %+v", report)
	}
	item := report.DataItems[0]
	times := make([]float64, 3)
	for i, name := range []string{"Perc50", "Perc90", "Perc99"} {
		times[i], _ = item.Data[name].(float64)
	}
	if item.Unit != "ms" || item.Labels["Operation"] != "PUT" || times[0] <= 0 || times[1] < times[0] || times[2] < times[1] {
		t.Errorf("report: %+v", report)
	}
}
