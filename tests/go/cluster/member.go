package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Member is one server process and what stays of it between its runs: data, log, addresses.
type Member struct {
	Name      string
	ClientURL string
	PeerURL   string
	DataDir   string

	prefix []string
	// tls is how its client URL is asked; nil when that is in the clear.
	tls    *tls.Config
	binary string
	args   []string
	// extra are the flags that a member that joins gets besides those of this package.
	extra   []string
	logPath string

	mu      sync.Mutex
	process *process
	// runBegins is where in the log the current run, or the last one, begins.
	runBegins int64
}

// process is one run of a member.
type process struct {
	cmd *exec.Cmd
	// done is closed when the process has been reaped; err is set before.
	done chan struct{}
	err  error
}

// flags are etcd's own, so that any server that takes them can be tested.
func (m *Member) flags(peers, token string) []string {
	return append(subcommand(m.binary),
		"--name="+m.Name,
		"--data-dir="+m.DataDir,
		"--listen-client-urls="+m.ClientURL,
		"--advertise-client-urls="+m.ClientURL,
		"--listen-peer-urls="+m.PeerURL,
		"--initial-advertise-peer-urls="+m.PeerURL,
		"--initial-cluster="+peers,
		"--initial-cluster-token="+token,
		"--initial-cluster-state=new",
	)
}

// Start begins a run and returns at once; WaitReady says when it serves.
func (m *Member) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return fmt.Errorf("%s is already started", m.Name)
	}
	log, err := os.OpenFile(m.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	m.runBegins = info.Size()
	words := slices.Concat(m.prefix, []string{m.binary}, m.args)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// A test process that is itself killed must not leave servers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	m.process = p
	return nil
}

// Restart starts a member that was killed or terminated and waits until it serves again.
func (m *Member) Restart(ctx context.Context) error {
	if err := m.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	return m.WaitReady(ctx)
}

// Kill ends the run with SIGKILL, as a crash would, and waits until the process is gone. It does nothing to a
// member that does not run.
func (m *Member) Kill() { _ = m.end(syscall.SIGKILL) }

// Terminate asks the run to end with SIGTERM and waits for it; the error is the process's exit state.
func (m *Member) Terminate() error { return m.end(syscall.SIGTERM) }

// Freeze stops the process with SIGSTOP: it holds its connections and its disk, and answers nothing.
func (m *Member) Freeze() error { return m.signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (m *Member) Thaw() error { return m.signal(syscall.SIGCONT) }

// ProcessID is the id of the current run's process, 0 if none runs.
func (m *Member) ProcessID() int {
	if p := m.current(); p != nil {
		return p.cmd.Process.Pid
	}
	return 0
}

// Running says whether the current run is still alive.
func (m *Member) Running() bool {
	p := m.current()
	return p != nil && !p.exited()
}

// Ended waits until the current run has ended by itself; it is false when the context ends first.
func (m *Member) Ended(ctx context.Context) bool {
	p := m.current()
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// LogTail is the last n lines of everything the member has printed in all its runs.
func (m *Member) LogTail(n int) string {
	data, err := os.ReadFile(m.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// RunLog is everything that the current run has printed, or the last one if none runs.
func (m *Member) RunLog() (string, error) {
	m.mu.Lock()
	begins := m.runBegins
	m.mu.Unlock()
	log, err := os.Open(m.logPath)
	if err != nil {
		return "", err
	}
	defer log.Close()
	if _, err := log.Seek(begins, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(log)
	return string(text), err
}

func (m *Member) current() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process
}

func (m *Member) signal(s syscall.Signal) error {
	p := m.current()
	if p == nil {
		return fmt.Errorf("%s does not run", m.Name)
	}
	return p.cmd.Process.Signal(s)
}

func (m *Member) end(s syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.process
	if p == nil {
		return nil
	}
	// An error means that it has ended by itself; waiting tells how.
	_ = p.cmd.Process.Signal(s)
	<-p.done
	m.process = nil
	return p.err
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
