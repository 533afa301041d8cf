package metrics

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"stele.test/cluster"
)

// TestPrometheusReadsEveryFamily reads a scrape with Prometheus's own parser, and with promtool where there is one.
func TestPrometheusReadsEveryFamily(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	_, body, err := get(ctx, c.Members[0], "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	own, err := parse(body)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range own.types {
		family := families[name]
		if len(own.series[name]) == 0 {
			// It is announced, and has no series yet.
			continue
		}
		if family == nil || !strings.EqualFold(family.GetType().String(), kind) {
			t.Errorf("%s is a %s to this test, and %v to Prometheus", name, kind, family.GetType())
		}
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
	}
	if len(families) < 100 {
		t.Errorf("only %d families", len(families))
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		return
	}
	// What it says of etcd's names is etcd's.
	check := exec.CommandContext(ctx, promtool, "check", "metrics")
	check.Stdin = strings.NewReader(body)
	out, _ := check.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "stele_") {
			t.Errorf("promtool: %s", line)
		}
	}
}
