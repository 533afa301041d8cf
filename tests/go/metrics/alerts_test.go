package metrics

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/netns"
)

// alertsAsked runs the alert rules: it takes minutes of a quiet machine, and packages that few have.
var alertsAsked = flag.Bool("alerts", false, "run etcd's alert rules over healthy and unhealthy clusters")

// mixinModule is the module of tests/ that pins the one with etcd's mixin.
const mixinModule = "benchmark"

// tool is the path of a program, or skips the test.
func tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed (Debian's package %s)", name, debianPackage)
	}
	return path
}

// mixin is the directory of etcd's mixin in the module cache.
func mixin(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/v3")
	list.Dir = filepath.Join(repository(), "tests", mixinModule)
	dir, err := list.Output()
	if err != nil || len(dir) == 0 {
		t.Skipf("the module with etcd's mixin is not in the module cache: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "contrib", "mixin")
}

// TestDashboardsNameWhatExists looks for each name of the mixin's dashboards in a scrape.
func TestDashboardsNameWhatExists(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(mixin(t), "dashboards")
	c := cluster.ForTest(t, cluster.Config{Binary: *bin})
	s, err := scrapeOf(t.Context(), c.Members[0])
	if err != nil {
		t.Fatal(err)
	}
	targets, err := os.ReadFile(filepath.Join(dir, "targets.libsonnet"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(etcd|grpc_server|process|go)_[a-z_]+\b`).FindAllString(string(targets), -1)
	for _, name := range names {
		if strings.HasSuffix(name, "_selector") {
			continue
		}
		if _, found := s.types[strings.TrimSuffix(name, "_bucket")]; !found {
			t.Errorf("a dashboard shows %s, which is not served", name)
		}
	}
	if len(names) < 15 {
		t.Errorf("only %d names in the dashboards", len(names))
	}
}

// rules are etcd's alert rules, as promtool reads them.
type rules struct {
	file     string
	promtool string
	// alerts are the names, and families what the expressions ask for.
	alerts   []string
	families map[string]bool
}

// TestAlertsFireWhenTheyShould brings clusters into each of the states, and lets promtool evaluate the mixin's rules over an
// hour before, an hour in that state, and an hour after it. What fires in them must be what the state says, for the
// members that it says, and nothing else. Each of etcd's alerts must fire in one state at least.
//
// The hours are made of seconds: what members count goes on at the rate between two scrapes of each part.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	if !*alertsAsked {
		t.Skip("only with -alerts")
	}
	r := compile(t)
	network, err := netns.New(3)
	if err != nil {
		t.Skip("no network to partition: " + err.Error())
	}
	demanded := map[string]bool{}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			observed := observe(t, state, network, r.families)
			fired := r.evaluate(t, observed.series)
			for part, wanted := range [][]string{nil, state.must, nil} {
				allowed := state.may
				if part == 0 {
					allowed = nil
				}
				if part == 2 {
					allowed = state.after
				}
				judge(t, partNames[part], fired[part], wanted, allowed, observed)
			}
		})
		for _, alert := range state.must {
			name, _, _ := strings.Cut(alert, "@")
			demanded[name] = true
		}
	}
	for _, alert := range r.alerts {
		if !demanded[alert] {
			t.Errorf("no state demands %s", alert)
		}
	}
}

var partNames = [...]string{"before", "meanwhile", "after"}

// judge compares what has fired with what must, and what may.
func judge(t *testing.T, part string, fired map[string][]string, must, may []string, of observedState) {
	t.Helper()
	t.Logf("%s: %v", part, fired)
	for _, alert := range must {
		name, whom, _ := strings.Cut(alert, "@")
		instances, found := fired[name]
		if !found {
			t.Errorf("%s: %s does not fire", part, name)
			continue
		}
		if got := whoIs(instances, of); got != whom {
			t.Errorf("%s: %s fires for %v (%q), and not for %q", part, name, instances, got, whom)
		}
	}
	for name := range fired {
		named := func(alert string) bool { return alert == name || strings.HasPrefix(alert, name+"@") }
		if !slices.ContainsFunc(must, named) && !slices.ContainsFunc(may, named) {
			t.Errorf("%s: %s fires for %v", part, name, fired[name])
		}
	}
}

// whoIs names the members for which an alert fires; that of the whole cluster has no name.
func whoIs(instances []string, of observedState) string {
	others := slices.DeleteFunc(slices.Clone(of.members), func(name string) bool { return name == of.victim })
	switch {
	case slices.Equal(instances, []string{""}):
		return ""
	case slices.Equal(instances, []string{of.victim}):
		return "victim"
	case slices.Equal(instances, others):
		return "others"
	case slices.Equal(instances, of.members):
		return "all"
	default:
		return fmt.Sprint(instances)
	}
}

// compile makes the rules of the mixin, with its own configuration.
func compile(t *testing.T) rules {
	t.Helper()
	r := rules{promtool: tool(t, "promtool", "prometheus"), families: map[string]bool{}}
	r.file = filepath.Join(t.TempDir(), "rules.json")
	program := `((import "config.libsonnet") + (import "alerts/alerts.libsonnet")).prometheusAlerts`
	compiler := exec.Command(tool(t, "jsonnet", "jsonnet"), "-J", mixin(t), "-o", r.file, "-e", program)
	if out, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("jsonnet: %v\n%s", err, out)
	}
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, group := range all.Groups {
		for _, rule := range group.Rules {
			r.alerts = append(r.alerts, rule.Alert)
			for _, family := range regexp.MustCompile(`\b(etcd|grpc)_[a-z_]+\b`).FindAllString(rule.Expr, -1) {
				r.families[family] = true
			}
		}
	}
	if len(r.alerts) < 13 || len(r.families) < 10 {
		t.Fatalf("the mixin has only the alerts %v over %v", r.alerts, slices.Collect(maps.Keys(r.families)))
	}
	return r
}

// evaluate returns the alerts that fire near the end of each part, with the members for which they do; those of the whole
// cluster have the empty name.
func (r rules) evaluate(t *testing.T, input []series) [3]map[string][]string {
	t.Helper()
	var asked []any
	for part := range partNames {
		at := time.Duration(part)*partLength + partLength - 5*time.Minute
		// It fails on purpose: what promtool then says it got are the alerts.
		asked = append(asked, map[string]any{
			"expr": `group by (alertname, instance) (ALERTS{alertstate="firing"})`, "eval_time": at.String(),
			"exp_samples": []any{map[string]any{"labels": `{alertname="none"}`, "value": 1}},
		})
	}
	text, err := json.Marshal(map[string]any{
		"rule_files": []string{r.file}, "evaluation_interval": "30s",
		"tests": []any{map[string]any{"interval": "30s", "input_series": input, "promql_expr_test": asked}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), r.promtool, "test", "rules", file).CombinedOutput()
	answers := strings.Split(string(out), "got:")[1:]
	if err == nil || len(answers) != len(partNames) || strings.Contains(string(out), "invalid sample") {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	var fired [3]map[string][]string
	for part, answer := range answers {
		fired[part] = map[string][]string{}
		samples, _, _ := strings.Cut(answer, "expr:")
		for _, match := range regexp.MustCompile(`\{alertname="(\w+)"(?:, instance="(\w+)")?\}`).FindAllStringSubmatch(samples, -1) {
			fired[part][match[1]] = append(fired[part][match[1]], match[2])
		}
		for _, instances := range fired[part] {
			slices.Sort(instances)
		}
	}
	return fired
}
