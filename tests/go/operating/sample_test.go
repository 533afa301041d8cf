// Package operating uses what operators use besides the API: configuration files and profiles.
package operating

import (
	"flag"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// sample is the file in etcd's module, which the benchmark's module has for it.
func sample(t *testing.T) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/v3")
	list.Dir = filepath.Join(filepath.Dir(file), "..", "..", "benchmark")
	out, err := list.Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("no module of etcd: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "etcd.conf.yml.sample")
}

// TestTheSampleOfEtcdIsAccepted: every key is known but those of the proxy of etcd 2, which etcd ignores as well.
func TestTheSampleOfEtcdIsAccepted(t *testing.T) {
	check := exec.Command(*bin, "--check", "--config-file="+sample(t))
	check.Dir = t.TempDir()
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "the configuration is good") {
		t.Errorf("%s", out)
	}
	for line := range strings.Lines(string(out)) {
		old := strings.Contains(line, `key="proxy`) || strings.Contains(line, `key="discovery-fallback"`)
		if strings.Contains(line, "unrecognized key") && !old {
			t.Errorf("%s", line)
		}
	}
}
