package metrics

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// alertsAsked runs the alert rules: it takes minutes of a quiet machine, and packages that few have.
var alertsAsked = flag.Bool("alerts", false, "run etcd's alert rules over healthy and unhealthy clusters")

// mixinModule is the module of tests/ that pins the one with etcd's mixin.
const mixinModule = "benchmark"

// scenario is a state of a cluster, and the alerts that fire if it lasts: those that must, and those that may.
type scenario struct {
	name      string
	args      []string
	must, may []string
	// hurt brings the cluster into the state and keeps it there until the context ends.
	hurt func(ctx context.Context, c *cluster.Cluster) error
}

var scenarios = []scenario{
	{name: "healthy", hurt: func(context.Context, *cluster.Cluster) error { return nil }},
	{
		name: "full", args: []string{"--quota-backend-bytes=4194304"}, hurt: fill,
		must: []string{"etcdDatabaseQuotaLowSpace", "etcdExcessiveDatabaseGrowth", "etcdHighNumberOfFailedGRPCRequests"},
	},
	{
		name: "partitioned", hurt: separate,
		must: []string{"etcdMembersDown", "etcdInsufficientMembers", "etcdNoLeader"},
		may:  []string{"etcdHighNumberOfFailedGRPCRequests", "etcdHighNumberOfFailedProposals"},
	},
	{
		name: "slow", args: []string{"--heartbeat-interval=1000", "--election-timeout=10000"}, hurt: slow,
		must: []string{"etcdMemberCommunicationSlow", "etcdGRPCRequestsSlow"},
		may:  []string{"etcdHighFsyncDurations", "etcdHighCommitDurations"},
	},
}

const (
	// observed is the time between the two scrapes that show how fast counters rise.
	observed = 5 * time.Second
	// clients put at the same time, again and again.
	putters = 8
)

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

// TestAlertsFireWhenTheyShould lets promtool evaluate the mixin's rules over an hour in which a state lasts. The members
// are in that state for some seconds; what they count goes on at the rate of those.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	if !*alertsAsked {
		t.Skip("only with -alerts")
	}
	promtool, jsonnet := tool(t, "promtool", "prometheus"), tool(t, "jsonnet", "jsonnet")
	rules := filepath.Join(t.TempDir(), "rules.json")
	program := `((import "config.libsonnet") + (import "alerts/alerts.libsonnet")).prometheusAlerts`
	if out, err := exec.Command(jsonnet, "-J", mixin(t), "-o", rules, "-e", program).CombinedOutput(); err != nil {
		t.Fatalf("jsonnet: %v\n%s", err, out)
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			fired := alerts(t, promtool, rules, seriesOf(t, scenario))
			for _, alert := range scenario.must {
				if !slices.Contains(fired, alert) {
					t.Errorf("%s does not fire", alert)
				}
			}
			for _, alert := range fired {
				if !slices.Contains(scenario.must, alert) && !slices.Contains(scenario.may, alert) {
					t.Errorf("%s fires", alert)
				}
			}
			t.Logf("fired: %v", fired)
		})
	}
}

// series is one of promtool's input series.
type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

const (
	// interval is that of the scrapes of the mixin's configuration.
	interval = 30 * time.Second
	// scrapes last for an hour.
	scrapes = 120
)

// seriesOf brings a cluster into a state, and returns what Prometheus would have scraped for an hour.
func seriesOf(t *testing.T, scenario scenario) []series {
	args := append([]string{"--metrics=extensive"}, scenario.args...)
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: args})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go load(ctx, c.Members[0])
	if err := scenario.hurt(ctx, c); err != nil {
		t.Fatal(err)
	}
	before := scrapePatiently(ctx, c)
	select {
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	case <-time.After(observed):
	}
	after := scrapePatiently(ctx, c)
	var all []series
	for _, m := range c.Members {
		first, wasUp := before[m.Name]
		last, isUp := after[m.Name]
		up := 0
		if wasUp && isUp {
			up = 1
		}
		all = append(all, series{labelled("up", m.Name), fmt.Sprintf("%dx%d", up, scrapes)})
		for name, value := range last.values {
			family, _, _ := strings.Cut(name, "{")
			kind := last.types[family]
			step := 0.0
			if kind != "gauge" {
				step = (value - first.values[name]) / last.at.Sub(first.at).Seconds() * interval.Seconds()
			}
			all = append(all, series{labelled(name, m.Name), fmt.Sprintf("%v+%vx%d", first.values[name], step, scrapes)})
		}
	}
	return all
}

// scrapePatiently scrapes all members, and gives each some time: one that stands still from time to time is up.
func scrapePatiently(ctx context.Context, c *cluster.Cluster) map[string]scrape {
	all := map[string]scrape{}
	for _, m := range c.Members {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		if s, err := scrapeOf(ctx, m); err == nil {
			all[m.Name] = s
		}
		cancel()
	}
	return all
}

// labelled adds the labels that Prometheus gives to what it scrapes.
func labelled(name, instance string) string {
	own := fmt.Sprintf(`job="etcd",instance=%q}`, instance)
	if base, labels, found := strings.Cut(name, "{"); found {
		return base + "{" + strings.TrimSuffix(labels, "}") + "," + own
	}
	return name + "{" + own
}

// alerts are the names of the alerts that fire at the end of the hour.
func alerts(t *testing.T, promtool, rules string, input []series) []string {
	t.Helper()
	test := map[string]any{
		"rule_files": []string{rules}, "evaluation_interval": "30s",
		"tests": []any{map[string]any{
			"interval": "30s", "input_series": input,
			// It fails on purpose: what promtool then says it got are the alerts.
			"promql_expr_test": []any{map[string]any{
				"expr": `group by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": "55m",
				"exp_samples": []any{map[string]any{"labels": `{alertname="none"}`, "value": 1}},
			}},
		}},
	}
	text, err := json.Marshal(test)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
	_, got, found := strings.Cut(string(out), "got:")
	if err == nil || !found || strings.Contains(string(out), "invalid sample") {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	var fired []string
	for _, match := range regexp.MustCompile(`alertname="(\w+)"`).FindAllStringSubmatch(got, -1) {
		fired = append(fired, match[1])
	}
	return fired
}

// load puts, whatever the answers are.
func load(ctx context.Context, m *cluster.Member) {
	client, err := clientv3.New(clientConfig(m))
	if err != nil {
		return
	}
	defer client.Close()
	for range putters {
		go func() {
			for ctx.Err() == nil {
				client.Put(ctx, "load", "value")
				pause(ctx)
			}
		}()
	}
	<-ctx.Done()
}

// fill writes until the quota refuses more.
func fill(ctx context.Context, c *cluster.Cluster) error {
	client, err := clientv3.New(clientConfig(c.Members[0]))
	if err != nil {
		return err
	}
	defer client.Close()
	for n := 0; ; n++ {
		_, err := client.Put(ctx, fmt.Sprint("big", n), value)
		if err != nil && ctx.Err() == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// separate leaves the first member alone, until it has given up its leader.
func separate(ctx context.Context, c *cluster.Cluster) error {
	for _, m := range c.Members[1:] {
		if err := m.Freeze(); err != nil {
			return err
		}
	}
	for {
		s, err := scrapeOf(ctx, c.Members[0])
		if err == nil && s.values["etcd_server_has_leader"] == 0 {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// slow lets all members but the first stand still for most of the time.
func slow(ctx context.Context, c *cluster.Cluster) error {
	const still, running = 400 * time.Millisecond, 20 * time.Millisecond
	go func() {
		for ctx.Err() == nil {
			for _, m := range c.Members[1:] {
				m.Freeze()
			}
			time.Sleep(still)
			for _, m := range c.Members[1:] {
				m.Thaw()
			}
			time.Sleep(running)
		}
	}()
	return nil
}
