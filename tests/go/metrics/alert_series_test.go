package metrics

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
	"stele.test/netns"
)

const (
	// partLength is how long each part of a state lasts for Prometheus.
	partLength = time.Hour
	// interval is that of the scrapes of the mixin's configuration.
	interval = 30 * time.Second
	// scrapes of a part.
	scrapes = int(partLength / interval)
	// observed is the least time between the two scrapes that show how fast counters rise.
	observed = 5 * time.Second
	// answerTimeout gives each member some time for a scrape: one that stands still from time to time is up.
	answerTimeout = 10 * time.Second
)

// series is one of promtool's input series.
type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// pair are two scrapes of a part, of the members that answered both.
type pair struct{ first, last map[string]scrape }

// observedState is what Prometheus would have scraped before, in and after a state.
type observedState struct {
	series []series
	// members in order, and the one that the state is about.
	members []string
	victim  string
}

// observe brings a cluster into a state and out of it again, and scrapes its members meanwhile.
func observe(t *testing.T, state state, network *netns.Network, families map[string]bool) observedState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	r := &stateRig{t: t, network: network}
	r.start(ctx, state)
	var parts []pair
	parts = append(parts, r.scrapeCalmly(ctx, observed))
	if state.hurt != nil {
		if err := state.hurt(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if apart := max(state.lasts, observed); state.meanwhile != nil || state.isSlow() {
		parts = append(parts, r.scrapeTwice(ctx, apart, state.meanwhile))
	} else {
		parts = append(parts, r.scrapeCalmly(ctx, apart))
	}
	if state.undo != nil {
		if err := state.undo(ctx, r); err != nil {
			t.Fatal(err)
		}
		r.settle(ctx)
	}
	parts = append(parts, r.scrapeCalmly(ctx, observed))
	all := observedState{victim: r.victim.Name}
	for _, m := range r.Members {
		all.members = append(all.members, m.Name)
		all.series = append(all.series, seriesOf(m.Name, parts, families)...)
	}
	return all
}

// scrapeTwice scrapes all members, lets some time pass in which work is done if there is any, and scrapes again.
func (r *stateRig) scrapeTwice(ctx context.Context, apart time.Duration, work func(context.Context, *stateRig) error) pair {
	r.t.Helper()
	first := scrapePatiently(ctx, r.Cluster)
	if work != nil {
		if err := work(ctx, r); err != nil {
			r.t.Fatal(err)
		}
	}
	select {
	case <-ctx.Done():
		r.t.Fatal(ctx.Err())
	case <-time.After(apart):
	}
	return pair{first, scrapePatiently(ctx, r.Cluster)}
}

// attempts to find the machine calm, five seconds each in most parts.
const attempts = 8

// scrapeCalmly is scrapeTwice where calls are not slow. If they are, it is repeated: calls also wait for whatever else this
// machine does. The last attempt counts in any case.
func (r *stateRig) scrapeCalmly(ctx context.Context, apart time.Duration) pair {
	r.t.Helper()
	for range attempts - 1 {
		if found := r.scrapeTwice(ctx, apart, nil); !found.isSlow() {
			return found
		}
	}
	return r.scrapeTwice(ctx, apart, nil)
}

// isSlow is whether a hundredth of a member's calls of a method took longer than the bound below that of etcdGRPCRequestsSlow.
func (p pair) isSlow() bool {
	for member, last := range p.last {
		for one := range last.values {
			if !strings.HasPrefix(one, "grpc_server_handling_seconds_bucket{") || !strings.Contains(one, `le="0.1"`) {
				continue
			}
			soonBefore, soonAfter, found := p.values(member, one)
			allBefore, allAfter, _ := p.values(member, strings.Replace(one, `le="0.1"`, `le="+Inf"`, 1))
			if found && soonAfter-soonBefore < 0.99*(allAfter-allBefore) {
				return true
			}
		}
	}
	return false
}

// seriesOf are the series of one member over all parts. Counters go on at the rate of each part; a member that was not
// reached is down in that part.
func seriesOf(name string, parts []pair, families map[string]bool) []series {
	names, kinds := map[string]bool{}, map[string]string{}
	up := []string{}
	for _, part := range parts {
		last, reached := part.last[name]
		if _, before := part.first[name]; !before {
			reached = false
		}
		up = append(up, constant(map[bool]float64{true: 1}[reached]))
		for one := range last.values {
			if family, _, _ := strings.Cut(one, "{"); reached && families[family] {
				names[one], kinds[one] = true, last.types[strings.TrimSuffix(family, "_bucket")]
			}
		}
	}
	all := []series{{labelled("up", name), strings.Join(up, " ")}}
	for one := range names {
		var values []string
		total := 0.0
		for at, part := range parts {
			first, last, found := part.values(name, one)
			switch {
			case !found:
				values = append(values, fmt.Sprintf("_x%d", scrapes))
			case kinds[one] == "gauge":
				values = append(values, constant(last))
			default:
				if at == 0 {
					total = first
				}
				rise := last - first
				if rise < 0 {
					// The process began again meanwhile.
					rise = last
				}
				step := rise / part.last[name].at.Sub(part.first[name].at).Seconds() * interval.Seconds()
				values = append(values, fmt.Sprintf("%v+%vx%d", total, step, scrapes-1))
				total += step * float64(scrapes)
			}
		}
		all = append(all, series{labelled(one, name), strings.Join(values, " ")})
	}
	return all
}

// values are those of a series in both scrapes.
func (p pair) values(member, one string) (first, last float64, found bool) {
	before, reached := p.first[member]
	after, stillReached := p.last[member]
	if !reached || !stillReached {
		return 0, 0, false
	}
	last, found = after.values[one]
	return before.values[one], last, found
}

// constant is a value for a whole part.
func constant(value float64) string { return fmt.Sprintf("%v+0x%d", value, scrapes-1) }

// scrapePatiently scrapes all members that answer.
func scrapePatiently(ctx context.Context, c *cluster.Cluster) map[string]scrape {
	all := map[string]scrape{}
	for _, m := range c.Members {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
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
