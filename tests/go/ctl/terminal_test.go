package ctl

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"stele.test/cluster"
)

// terminal is a pseudo-terminal in which a command runs, with what it has shown.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd
	mutex  sync.Mutex
	shown  strings.Builder
	closed chan struct{}
}

// inTerminal runs a line in a terminal of so many columns.
func inTerminal(t *testing.T, p *program, columns uint16, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(err)
	must(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	must(unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}))
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(err)
	defer slave.Close()
	term := &terminal{master: master, cmd: exec.Command(p.path, append(append([]string{}, p.before...), args...)...), closed: make(chan struct{})}
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "ETCDCTL_ENDPOINTS=" + p.endpoint, "TERM=xterm-256color"}
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	must(term.cmd.Start())
	t.Cleanup(func() {
		term.cmd.Process.Kill()
		term.cmd.Wait()
	})
	go func() {
		defer close(term.closed)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			term.mutex.Lock()
			term.shown.Write(buffer[:n])
			term.mutex.Unlock()
			// The other side is closed.
			if err != nil {
				return
			}
		}
	}()
	return term
}

func (term *terminal) text() string {
	term.mutex.Lock()
	defer term.mutex.Unlock()
	return term.shown.String()
}

// shows waits for a text.
func (term *terminal) shows(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(term.text(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q never shows %q but %q", term.cmd.Args, text, term.text())
		}
	}
}

// end waits for the end of the command, and returns what it has shown.
func (term *terminal) end(t *testing.T) string {
	t.Helper()
	select {
	case <-term.closed:
	case <-time.After(patience):
		t.Fatalf("%q does not end: %q", term.cmd.Args, term.text())
	}
	return term.text()
}

// controls are what moves the cursor, clears and colours.
var controls = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// tooLong is the first line that does not fit; empty if all do.
func tooLong(text string, columns int) string {
	for _, line := range regexp.MustCompile(`[\r\n]+`).Split(controls.ReplaceAllString(text, ""), -1) {
		if utf8.RuneCountInString(line) > columns {
			return line
		}
	}
	return ""
}

// TestATerminalShowsMoreAndAllFits runs the commands for operators, and pages, in terminals of two widths.
func TestATerminalShowsMoreAndAllFits(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3})
	p := own(t, c)
	p.do(t, "put a/1 one")
	p.do(t, "put a/1 two")
	archive := filepath.Join(t.TempDir(), "archive")
	for _, columns := range []uint16{80, 200} {
		for _, l := range []struct {
			line, want string
			// fits is whether no line is longer than the terminal: tables and pages are made for it, messages are not cut.
			fits bool
		}{
			{"status", "The cluster is healthy: 3 of 3 members answer", true},
			{"top --times 1 --interval 100ms", "\x1b[H", true},
			{"--help", "Cluster maintenance commands", true},
			{"get --help", "--consistency", true},
			{"get --nonsense", "--consistency", true},
			{"follow --help", "--keep-revisions", false},
			{"diff --rev 2 --other-rev 3", "\x1b[", false},
			{"lease revoke 1234", "Hint: it expired or was revoked", false},
			{"snapshot save " + filepath.Join(t.TempDir(), "s.db"), "Snapshot saved at", false},
			{"backup --once " + archive, "the archive has all up to revision", false},
		} {
			asked := p
			if strings.HasPrefix(l.line, "snapshot") {
				// It is taken of one member.
				asked = &program{path: p.path, before: p.before, endpoint: strings.TrimPrefix(c.Endpoints()[0], "http://")}
			}
			text := inTerminal(t, asked, columns, strings.Fields(l.line)...).end(t)
			if !strings.Contains(text, l.want) {
				t.Errorf("%s in %d columns shows no %q: %q", l.line, columns, l.want, text)
			}
			if line := tooLong(text, int(columns)); line != "" && l.fits {
				t.Errorf("%s has a line of more than %d columns: %q", l.line, columns, line)
			}
		}
	}
	for _, line := range []string{"status", "top --times 1 --interval 100ms", "diff --rev 2 --other-rev 3", "lease revoke 1234"} {
		if r := p.run(t, l(line)); strings.Contains(r.out+r.errors, "\x1b") || strings.Contains(r.errors, "Hint: ") {
			t.Errorf("%s without a terminal: %q", line, r.out+r.errors)
		}
	}
}

// TestPagesOfAllProgramsFitATerminal asks each program for its pages in a terminal, and without one: scripts get lines as
// they are.
func TestPagesOfAllProgramsFitATerminal(t *testing.T) {
	t.Parallel()
	for _, page := range []struct{ name, line, want string }{
		{"stele", "--help", "--initial-cluster-token"},
		{"stele", "server --help", "--initial-cluster-token"},
		{"etcd", "--help", "--initial-cluster-token"},
		{"stele", "utl --help", "--write-out"},
		{"stele", "utl snapshot restore --help", "--initial-cluster-token"},
		{"etcdutl", "migrate --help", "--target-version"},
		{"stele", "bench put --help", "--compact-index-delta"},
		{"benchmark", "put --help", "--compact-index-delta"},
		{"benchmark", "put --nonsense", "--compact-index-delta"},
	} {
		p := &program{path: named(t, page.name)}
		text := inTerminal(t, p, 80, strings.Fields(page.line)...).end(t)
		if line := tooLong(text, 80); line != "" || !strings.Contains(text, page.want) {
			t.Errorf("%s %s has a line of more than 80 columns, or no %s: %q", page.name, page.line, page.want, line)
		}
		r := p.run(t, l(page.line))
		if strings.Contains(r.out+r.errors, "\x1b") || tooLong(r.out+r.errors, 80) == "" {
			t.Errorf("%s %s without a terminal: %s", page.name, page.line, r.out+r.errors)
		}
	}
}

// TestAPasswordIsAskedForAndNotShown adds a user in a terminal.
func TestAPasswordIsAskedForAndNotShown(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	p := own(t, c)
	term := inTerminal(t, p, 80, "user", "add", "ann")
	for _, prompt := range []string{"Password of ann: ", "Type password of ann again for confirmation: "} {
		term.shows(t, prompt)
		waitForHiddenInput(t, term)
		if _, err := io.WriteString(term.master, "hidden-word\n"); err != nil {
			t.Fatal(err)
		}
	}
	if text := term.end(t); !strings.Contains(text, "User ann created") || strings.Contains(text, "hidden-word") {
		t.Errorf("it shows %q", text)
	}
	p.do(t, "user add root:secret")
	p.do(t, "user grant-role root root")
	p.do(t, "auth enable")
	term = inTerminal(t, p, 80, "get", "a", "--user", "root")
	term.shows(t, "Password: ")
	waitForHiddenInput(t, term)
	if _, err := io.WriteString(term.master, "secret\n"); err != nil {
		t.Fatal(err)
	}
	if text := term.end(t); strings.Contains(text, "Error") || strings.Count(text, "Password: ") != 1 || strings.Contains(text, "secret") {
		t.Errorf("it shows %q", text)
	}
}

// waitForHiddenInput waits until the terminal does not show what is typed.
func waitForHiddenInput(t *testing.T, term *terminal) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		settings, err := unix.IoctlGetTermios(int(term.master.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if settings.Lflag&unix.ECHO == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the terminal shows what is typed")
		}
	}
}
