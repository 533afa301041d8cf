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
	"sync"
	"testing"

	"stele.test/cluster"
	"stele.test/wire"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

// sections are run at the same time: a case that fails waits for a second.
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
			// Failure and Skipped are there or not.
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
	reports := make([]report, len(sections))
	var all sync.WaitGroup
	for i, section := range sections {
		all.Go(func() {
			if reports[i], err = run(section, port, t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	passed, permitted := 0, map[string]bool{}
	for _, r := range reports {
		for _, suite := range r.Suites {
			for _, one := range suite.Cases {
				name := one.Section + ": " + one.Name
				switch {
				case one.Failure == nil && one.Error == nil && one.Skipped == nil:
					passed++
				case liberties[name] != "":
					permitted[name] = true
				default:
					t.Errorf("%s\n%s%s", name, text(one.Failure), text(one.Error))
				}
			}
		}
	}
	t.Logf("%d cases passed, %d are liberties", passed, len(permitted))
	for name := range permitted {
		t.Logf("liberty: %s (%s)", name, liberties[name])
	}
	if passed+len(permitted) < allCases {
		t.Errorf("only %d cases were run", passed+len(permitted))
	}
}

// allCases is how many there are, so that none is left out unnoticed.
const allCases = 145

// run runs a section; that cases fail is in its report.
func run(section, port, folder string) (report, error) {
	var r report
	path := filepath.Join(folder, "report.xml")
	command := exec.Command(cluster.ToolPath("h2spec"), section, "--port", port, "--timeout", "1", "--junit-report", path)
	output, failed := command.CombinedOutput()
	data, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("%s: %v, %v\n%s", section, failed, err, output)
	}
	decoder := xml.NewDecoder(bytes.NewReader(data))
	// Reports quote bytes that are no XML.
	decoder.Strict = false
	return r, decoder.Decode(&r)
}

func text(found *string) string {
	if found == nil {
		return ""
	}
	return *found
}
