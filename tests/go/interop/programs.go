// Package interop holds the cases of gRPC's interoperability tests, put to etcd's API: what each case says of an echo
// server is said here of a range, a put, a watch or a keep-alive. In the gate the client is grpc-go; with -languages the
// same cases are run by small programs with the gRPC libraries of other languages, which are fetched for that:
//
//	go test ./interop -v -languages python,node,java
package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"stele.test/cluster"
)

// installing bounds the time to fetch and build a program of another language, and to run it.
const installing = 10 * time.Minute

// foreign is how the programs of a language are run: commands in tests/interop/LANGUAGE, of which the last gets the
// arguments.
type foreign struct {
	commands [][]string
	// joined means that the last command takes the arguments as one word behind this one.
	joined string
}

// environment is where the libraries of Python are put.
func environment() string { return cluster.ToolPath("interop-python") }

// programs are those of a name in lower case, by language.
func programs(name string) map[string]foreign {
	python := filepath.Join(environment(), "bin", "python")
	return map[string]foreign{
		"python": {commands: [][]string{
			{"python3", "-m", "venv", environment()},
			{python, "-m", "pip", "--quiet", "install", "--requirement", "requirements.txt"}, {python, name + ".py"},
		}},
		"node": {commands: [][]string{
			{"npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"}, {"node", name + ".js"},
		}},
		"java": {
			commands: [][]string{{"mvn", "--quiet", "--batch-mode", "compile"}, {
				"mvn", "--quiet", "--batch-mode", "exec:java", "-Dexec.mainClass=" + strings.ToUpper(name[:1]) + name[1:],
			}},
			joined: "-Dexec.args=",
		},
	}
}

// RunProgram runs a program of tests/interop, after its libraries were fetched. It must end without an error; what it
// prints is logged.
func RunProgram(t *testing.T, language, name string, arguments ...string) {
	t.Helper()
	p, found := programs(name)[language]
	if !found {
		t.Fatalf("no program for %q", language)
	}
	if p.joined != "" {
		arguments = []string{p.joined + strings.Join(arguments, " ")}
	}
	ctx, cancel := context.WithTimeout(t.Context(), installing)
	defer cancel()
	_, file, _, _ := runtime.Caller(0)
	for i, words := range p.commands {
		if i == len(p.commands)-1 {
			words = append(words, arguments...)
		}
		command := exec.CommandContext(ctx, words[0], words[1:]...)
		command.Dir = filepath.Join(filepath.Dir(file), "..", "..", "interop", language)
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
}
