package etcdctl

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// puts are what differs between any two clusters, or two runs of one.
var puts = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`0x[0-9a-f]{8,}`), "ADDRESS"},
	{regexp.MustCompile(`\b[0-9a-f]{12,16}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9]{15,20}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)? [kMG]?B\b`), "SIZE"},
	{regexp.MustCompile(`\b[0-9.]+(µs|ms|m?[0-9.]*s)\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9]+%`), "PERCENT"},
	// What `check perf` measures, and whether that is enough, are the machine's affair.
	{regexp.MustCompile(`(PASS: |FAIL: )?Throughput (is|too low:) [0-9]+ writes/s`), "THROUGHPUT"},
	{regexp.MustCompile(`(PASS: )?Slowest request took (too long: )?TIME`), "SLOWEST"},
	{regexp.MustCompile(`(PASS: )?Stddev (is|too high:) TIME`), "DEVIATION"},
	{verdict, "VERDICT"},
	// A bar, drawn again and again.
	{regexp.MustCompile(`(?s)\b[0-9]+ / [0-9]+ \[[-_>]+\].*`), "BAR"},
	{regexp.MustCompile(`"(raft_term|raftTerm|raftIndex|raftAppliedIndex|dbSize|dbSizeInUse)":[0-9]+`), `"$1":N`},
	// Tables are as wide as what is in them.
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(`─+`), "─"},
	// The columns of `endpoint status`: term, index, applied index.
	{regexp.MustCompile(`(true|false), (true|false), [0-9]+, [0-9]+, [0-9]+,`), "$1, $2, TERM, INDEX, INDEX,"},
	{regexp.MustCompile(`(true|false) │ (true|false) │ [0-9]+ │ [0-9]+ │ [0-9]+ │`), "$1 │ $2 │ TERM │ INDEX │ INDEX │"},
}

// verdict is the last line of `check perf`.
var verdict = regexp.MustCompile(`(?m)^(PASS|FAIL)$`)

var memberName = regexp.MustCompile(`\bm[0-9]\b`)

// normalized names members by their roles and leaves out what differs between any two clusters.
func (s *system) normalized(o outcome, sorted bool) outcome {
	// A machine that is too slow for `check perf`.
	if o.exit == 1 && verdict.FindString(o.stdout) == "FAIL" {
		o.exit = 0
	}
	return outcome{o.exit, s.normalizedText(o.stdout, sorted), s.normalizedText(messages(o.stderr), true)}
}

func (s *system) normalizedText(text string, sorted bool) string {
	s.mu.Lock()
	var names []string
	for i, m := range s.members {
		names = append(names,
			m.url, fmt.Sprintf("CLIENT%d", i), m.peerURL, fmt.Sprintf("PEER%d", i),
			strings.TrimPrefix(m.url, "http://"), fmt.Sprintf("CLIENT%d", i),
			fmt.Sprintf("%x", m.id), fmt.Sprintf("MEMBER%d", i), fmt.Sprint(m.id), fmt.Sprintf("MEMBER%d", i))
	}
	names = append(names, s.dir, "DIR", s.joiner.ClientURL, "JOINER", s.joiner.PeerURL, "JOINER-PEER")
	roles := map[string]string{}
	for _, m := range s.cluster.Members {
		role := slices.IndexFunc(s.members, func(known member) bool { return known.url == m.ClientURL })
		roles[m.Name] = fmt.Sprintf("NAME%d", role)
	}
	s.mu.Unlock()
	text = strings.NewReplacer(names...).Replace(text)
	text = memberName.ReplaceAllStringFunc(text, func(name string) string {
		if role, known := roles[name]; known {
			return role
		}
		return name
	})
	for _, put := range puts {
		text = put.pattern.ReplaceAllString(text, put.instead)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if list, is := strings.CutPrefix(line, "ETCD_INITIAL_CLUSTER="); is {
			members := strings.Split(strings.Trim(list, `"`), ",")
			slices.Sort(members)
			lines[i] = "ETCD_INITIAL_CLUSTER=" + strings.Join(members, ",")
		}
	}
	if sorted {
		slices.Sort(lines)
	}
	return strings.Join(lines, "\n")
}

// messages leaves of the lines of etcdctl's logger what they say.
func messages(stderr string) string {
	var out strings.Builder
	for line := range strings.Lines(stderr) {
		var logged struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &logged) == nil {
			line = fmt.Sprintln(logged.Level, logged.Msg, logged.Error)
		}
		out.WriteString(line)
	}
	return out.String()
}
