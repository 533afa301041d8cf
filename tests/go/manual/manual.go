// Package manual gives tests the commands of pages for operators, and knows which of them were run.
package manual

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Page is a page of docs/operating.
type Page struct {
	name   string
	blocks []string

	mutex sync.Mutex
	// isRun is which of the blocks a test has taken.
	isRun []bool
}

// Open reads a page, such as `backup.md`.
func Open(name string) (*Page, error) {
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../../docs/operating", name))
	if err != nil {
		return nil, err
	}
	p := &Page{name: name}
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			// What stands behind the mark names the language.
			_, block, _ := strings.Cut(part, "\n")
			p.blocks = append(p.blocks, dedented(block))
		}
	}
	p.isRun = make([]bool, len(p.blocks))
	return p, nil
}

// dedented is a block without the indentation of its first line, which one in a list has.
func dedented(block string) string {
	indent := block[:len(block)-len(strings.TrimLeft(block, " "))]
	lines := strings.SplitAfter(block, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	return strings.Join(lines, "")
}

// Block is the first block of commands that has a line which begins so.
func (p *Page) Block(begin string) (string, error) {
	for i, block := range p.blocks {
		if strings.HasPrefix(block, begin) || strings.Contains(block, "\n"+begin) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.isRun[i] = true
			return block, nil
		}
	}
	return "", fmt.Errorf("%s has no block with %q", p.name, begin)
}

// Command is the block of commands that has a line which begins so, for bash in a directory. The programs are those of
// Tools; variables are added to those of this process.
func (p *Page) Command(ctx context.Context, dir, programs, begin string, variables ...string) (*exec.Cmd, error) {
	block, err := p.Block(begin)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "bash", "-e", "-c", block)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH")), variables...)
	return cmd, nil
}

// Tools is a directory with programs under the names that people type.
func Tools(t testing.TB, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range programs {
		path, err := filepath.Abs(path)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// notRun are the blocks that no test has taken.
func (p *Page) notRun() (blocks []string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i, isRun := range p.isRun {
		if !isRun {
			blocks = append(blocks, p.blocks[i])
		}
	}
	return blocks
}

// RunAll runs the tests of a package, and returns the exit code: it is 1 too if all of them ran and a block was not taken.
// That is so if a test failed as well, so that its repetition, which runs it alone, does not hide it; the test may then
// have ended before it took its block.
func (p *Page) RunAll(m *testing.M) int {
	flag.Parse()
	code := m.Run()
	if !RunsAll() {
		return code
	}
	for _, block := range p.notRun() {
		fmt.Printf("no test runs this block of %s:\n%s", p.name, block)
		code = 1
	}
	return code
}

// RunsAll is whether this process runs all tests of its package: none was chosen, and they are not only listed. The flags
// have been parsed.
func RunsAll() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}
