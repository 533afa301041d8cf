package etcdctl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"stele.test/cluster"
)

var (
	bin    = flag.String("bin", cluster.StelePath(), "the server to test")
	slow   = flag.Bool("slow", false, "also the commands that put for up to a minute")
	update = flag.Bool("update", false, "write docs/operating/etcdctl.md")
)

// TestCommandsEndAlike runs each command against both systems.
func TestCommandsEndAlike(t *testing.T) {
	var systems [2]*system
	var starting sync.WaitGroup
	for i, binary := range []string{cluster.EtcdPath(), *bin} {
		starting.Go(func() { systems[i] = newSystem(t, filepath.Base(binary), binary) })
	}
	starting.Wait()
	if t.Failed() {
		return
	}
	rows := make([]string, 0, len(commands))
	for _, c := range commands {
		if c.slow && !*slow {
			rows = append(rows, fmt.Sprintf("| `%s` | | | compared on demand (`-slow`) |", c.shown()))
			continue
		}
		sameOutput, sameExit := compare(t, systems, c)
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", c.shown(), yes(sameOutput), yes(sameExit), c.differs))
	}
	if !*slow {
		checkDocument(t, rows)
	}
}

// shown is the command as it would be typed, with its standard input.
func (c command) shown() string {
	if c.input == "" {
		return c.line
	}
	return fmt.Sprintf("%s <<< %q", c.line, c.input)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func compare(t *testing.T, systems [2]*system, c command) (sameOutput, sameExit bool) {
	t.Helper()
	var outcomes [2]outcome
	var errs [2]error
	var running sync.WaitGroup
	for i, s := range systems {
		running.Go(func() {
			if c.before != nil {
				if errs[i] = c.before(t.Context(), s); errs[i] != nil {
					return
				}
			}
			var raw outcome
			raw, errs[i] = s.run(t.Context(), c)
			outcomes[i] = s.normalized(raw, c.sorted)
		})
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %s: %v", c.line, systems[i].name, err)
		}
	}
	sameExit = outcomes[0].exit == outcomes[1].exit
	sameOutput = outcomes[0].stdout == outcomes[1].stdout && outcomes[0].stderr == outcomes[1].stderr
	if (sameOutput && sameExit) != (c.differs == "") {
		t.Errorf("etcdctl %s\n  %s: %v  %s: %v", c.line, systems[0].name, outcomes[0], systems[1].name, outcomes[1])
	}
	return sameOutput, sameExit
}

const (
	tableBegins = "| command | same output | same exit code | why not |\n|---|---|---|---|\n"
	tableEnds   = "\n\n## What is left out"
)

// TestEveryCommandHasARow compares the table with the list of etcdctl's commands. Some have nothing to do with a server.
func TestEveryCommandHasARow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "ctl", "testdata", "contract.txt"))
	if err != nil {
		t.Fatal(err)
	}
	local, listed := []string{"completion", "options", "version"}, 0
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") || strings.Contains(name, "\t") {
			continue
		}
		listed++
		has := slices.ContainsFunc(commands, func(c command) bool {
			return strings.Contains(" "+c.line+" ", " "+name+" ")
		})
		if has == slices.Contains(local, name) {
			t.Errorf("%s: has a row: %t", name, has)
		}
	}
	if listed < 50 {
		t.Errorf("%d commands are listed", listed)
	}
}

// checkDocument compares the table in the document with what was seen, or writes it.
func checkDocument(t *testing.T, rows []string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(file), "..", "..", "..", "docs", "operating", "etcdctl.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(data), tableBegins)
	_, tail, ends := strings.Cut(rest, tableEnds)
	if !found || !ends {
		t.Fatalf("%s has no table", path)
	}
	now := head + tableBegins + strings.Join(rows, "\n") + tableEnds + tail
	if now == string(data) || t.Failed() {
		return
	}
	if !*update {
		t.Errorf("the table in %s is not what was seen; run this test with -update", path)
	} else if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
		t.Fatal(err)
	}
}
