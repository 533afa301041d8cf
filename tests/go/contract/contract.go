// Package contract knows what one of etcd's command lines offers, and which of it tests have compared with etcd's program.
package contract

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"stele.test/manual"
)

// Contract is what a program offers.
type Contract struct {
	Commands []string
	// Options are pairs of a command, or of a group of them, and an option.
	Options [][2]string
	// Short are the options that have a letter.
	Short map[string]string

	mutex sync.Mutex
	// lines are those that etcd's program ran in this process.
	lines [][]string
}

// Read reads a list of commands, then of options, each with its command, as the help pages of etcd's program have them.
func Read(file string, short map[string]string) (*Contract, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &Contract{Short: short}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		command, option, isOption := strings.Cut(line, "\t")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case isOption:
			c.Options = append(c.Options, [2]string{command, option})
		default:
			c.Commands = append(c.Commands, line)
		}
	}
	return c, nil
}

// Note remembers a line that etcd's program runs, as Stele's does.
func (c *Contract) Note(args []string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.lines = append(c.lines, slices.Clone(args))
}

// names is whether a line has all words of a command, in their order, and an option unless that is empty.
func (c *Contract) names(line []string, command, option string) bool {
	for _, word := range strings.Fields(command) {
		at := slices.Index(line, word)
		if at < 0 {
			return false
		}
		line = slices.Concat(line[:at], line[at+1:])
	}
	return option == "" || slices.ContainsFunc(line, func(word string) bool {
		word, _, _ = strings.Cut(word, "=")
		return word == option || c.Short[word] == option
	})
}

// Missing are commands and options that no line names. A page of help names none.
func (c *Contract) Missing(lines [][]string) (missing []string) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(line []string) bool { return slices.Contains(line, "--help") })
	are := func(command, option string) bool {
		return slices.ContainsFunc(lines, func(line []string) bool { return c.names(line, command, option) })
	}
	for _, command := range c.Commands {
		if !are(command, "") {
			missing = append(missing, command)
		}
	}
	for _, pair := range c.Options {
		// Every line is run with it.
		if pair[1] == "--endpoints" {
			continue
		}
		if command := strings.TrimPrefix(pair[0], "(global)"); !are(command, pair[1]) {
			missing = append(missing, strings.TrimSpace(command+" "+pair[1]))
		}
	}
	return missing
}

// RunAll runs tests with run, and fails if they were all run and a command or an option was in no line of them. That is
// printed beside a test that failed, too: its repetition runs it alone, and would hide it.
func (c *Contract) RunAll(m *testing.M, run func(*testing.M) int) int {
	code := run(m)
	if !manual.RunsAll() || len(c.lines) == 0 {
		return code
	}
	if missing := c.Missing(c.lines); len(missing) > 0 {
		fmt.Printf("no test runs these through etcd's program and this one:\n%s\n", strings.Join(missing, "\n"))
		return 1
	}
	return code
}
