// Package h2spec runs the published conformance tests of HTTP/2 and HPACK against a server. What the server permits
// itself against them is in liberties.go, each with its reason; grpc-go, and so etcd, takes most of them too:
//
//	go test ./h2spec -v -bin $PWD/../.bin/etcd
package h2spec

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"stele.test/cluster"
	"stele.test/wire"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// sections are run at the same time.
var sections = []string{
	"generic", "hpack", "http2/3", "http2/4", "http2/5.1", "http2/5.3", "http2/5.4", "http2/5.5", "http2/6.1", "http2/6.2",
	"http2/6.3", "http2/6.4", "http2/6.5", "http2/6.7", "http2/6.8", "http2/6.9", "http2/6.10", "http2/7", "http2/8",
}

// report is a JUnit report, as far as it matters.
type report struct {
	Suites []struct {
		Cases []struct {
			Section string `xml:"package,attr"`
			Name    string `xml:"classname,attr"`
			// These are there or not.
			Failure *string `xml:"failure"`
			Error   *string `xml:"error"`
			Skipped *string `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func TestHTTP2IsSpokenToTheLetter(t *testing.T) {
	// One case opens as many streams as the server says it takes, so it should say a number.
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--log-level=error", "--max-concurrent-streams=100"}})
	_, port, err := net.SplitHostPort(wire.Address(c.Members[0].ClientURL))
	if err != nil {
		t.Fatal(err)
	}
	all, permitted := results{}, []string{}
	for _, found := range runAll(t, sections, port) {
		all.add(found)
	}
	// Some cases send what is wrong behind a whole request, and fail when the answer is faster. They get more attempts.
	for attempt := 1; attempt < attempts && len(all.sections()) > 0; attempt++ {
		for _, again := range runAll(t, all.sections(), port) {
			all.add(again)
		}
	}
	for name, failure := range all {
		switch {
		case failure == "":
		case liberties[name] != "":
			permitted = append(permitted, name)
		default:
			t.Errorf("%s\n%s", name, failure)
		}
	}
	slices.Sort(permitted)
	for _, name := range permitted {
		t.Logf("liberty: %s (%s)", name, liberties[name])
	}
	t.Logf("%d of %d cases passed", len(all)-len(permitted), len(all))
	if len(all) < allCases {
		t.Errorf("only %d cases were run", len(all))
	}
}

// attempts is how often a case may fail before it counts.
const attempts = 5

// results are failures by section and name; empty if the case has passed at least once.
type results map[string]string

func (all results) add(found results) {
	for name, failure := range found {
		if known, seen := all[name]; !seen || known != "" {
			all[name] = failure
		}
	}
}

// sections are those with failures that are no liberties.
func (all results) sections() []string {
	var failed []string
	for name, failure := range all {
		section, _, _ := strings.Cut(name, ":")
		if failure != "" && liberties[name] == "" && !slices.Contains(failed, section) {
			failed = append(failed, section)
		}
	}
	return failed
}

// runAll runs sections at the same time: a case that fails waits for a second.
func runAll(t *testing.T, sections []string, port string) []results {
	found := make([]results, len(sections))
	var all sync.WaitGroup
	for i, section := range sections {
		all.Go(func() {
			var err error
			if found[i], err = run(section, port, t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return found
}

// allCases is how many there are, so that none is left out unnoticed.
const allCases = 145

// run runs a section; that cases fail is in its report.
func run(section, port, folder string) (results, error) {
	path := filepath.Join(folder, "report.xml")
	command := exec.Command(cluster.ToolPath("h2spec"), section, "--port", port, "--timeout", "1", "--junit-report", path)
	output, failed := command.CombinedOutput()
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %v, %v\n%s", section, failed, err, output)
	}
	decoder := xml.NewDecoder(bytes.NewReader(data))
	// Reports quote bytes that are no XML.
	decoder.Strict = false
	var r report
	if err := decoder.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: %w", section, err)
	}
	found := results{}
	for _, suite := range r.Suites {
		for _, one := range suite.Cases {
			var failure string
			for _, text := range []*string{one.Failure, one.Error, one.Skipped} {
				if text != nil {
					failure += "failed: " + *text
				}
			}
			found[one.Section+": "+one.Name] = failure
		}
	}
	return found, nil
}
