package interop

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

var languages = flag.String("languages", "", "other languages to run the cases with: python, node, java; their libraries are fetched")

// installing bounds the time to fetch and build a program of another language, and to run it.
const installing = 10 * time.Minute

// program is how the cases are run in another language. Commands are run in tests/interop/LANGUAGE; the last gets the
// addresses of the members.
type program struct {
	commands [][]string
	// joined means that the last command takes the addresses as one word behind this one.
	joined string
}

// environment is where the libraries of Python are put.
func environment() string { return cluster.ToolPath("interop-python") }

func programs() map[string]program {
	python := filepath.Join(environment(), "bin", "python")
	return map[string]program{
		"python": {commands: [][]string{
			{"python3", "-m", "venv", environment()},
			{python, "-m", "pip", "--quiet", "install", "--requirement", "requirements.txt"}, {python, "interop.py"},
		}},
		"node": {commands: [][]string{{"npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"}, {"node", "interop.js"}}},
		"java": {
			commands: [][]string{{"mvn", "--quiet", "--batch-mode", "compile"}, {"mvn", "--quiet", "--batch-mode", "exec:java"}},
			joined:   "-Dexec.args=",
		},
	}
}

// TestOtherLanguages runs the programs of tests/interop against three members: those that can connect to a list of
// addresses do.
func TestOtherLanguages(t *testing.T) {
	if *languages == "" {
		t.Skip("needs -languages, and the network")
	}
	for _, language := range strings.Split(*languages, ",") {
		t.Run(language, func(t *testing.T) {
			p, found := programs()[language]
			if !found {
				t.Fatalf("no program for %q", language)
			}
			c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3, Args: []string{"--log-level=error"}})
			var addresses []string
			for _, endpoint := range c.Endpoints() {
				addresses = append(addresses, strings.TrimPrefix(endpoint, "http://"))
			}
			if p.joined != "" {
				addresses = []string{p.joined + strings.Join(addresses, " ")}
			}
			ctx, cancel := context.WithTimeout(t.Context(), installing)
			defer cancel()
			for i, words := range p.commands {
				if i == len(p.commands)-1 {
					words = append(words, addresses...)
				}
				command := exec.CommandContext(ctx, words[0], words[1:]...)
				command.Dir = filepath.Join("..", "..", "interop", language)
				// The messages of the `etcd3` package were generated for an older protobuf.
				command.Env = append(os.Environ(), "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python")
				output, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", words, err, output)
				}
				if i == len(p.commands)-1 {
					t.Logf("%s", output)
				}
			}
		})
	}
}
