package tls

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"stele.test/cluster"
)

// guide is the block of commands behind a heading of docs/operating/security.md, by paragraph. Lines that go on are joined.
func guide(t *testing.T, heading string) [][]string {
	t.Helper()
	text := string(must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "operating", "security.md"))))
	_, text, found := strings.Cut(text, "\n"+heading+"\n")
	_, text, begins := strings.Cut(text, "```sh\n")
	text, _, ends := strings.Cut(text, "```")
	if !found || !begins || !ends {
		t.Fatalf("%q has no commands", heading)
	}
	var paragraphs [][]string
	for _, paragraph := range strings.Split(strings.ReplaceAll(text, "\\\n", ""), "\n\n") {
		paragraphs = append(paragraphs, strings.Split(strings.TrimSpace(paragraph), "\n"))
	}
	return paragraphs
}

// members are those of the guide, and maxTyped is how many commands it may take to secure them.
const members, maxTyped = 3, 10

// host is where the guide is followed: a folder, and three loopback addresses in place of its 10.0.0.1 to 10.0.0.3.
type host struct {
	t    *testing.T
	dir  string
	path string
	net  string
}

// ofMember is a command of the first member as it is for another: the list of all members stays.
func ofMember(line string, number int) string {
	line, rest, has := strings.Cut(line, "--initial-cluster ")
	line = strings.ReplaceAll(line, "m1", fmt.Sprint("m", number))
	line = strings.ReplaceAll(line, "10.0.0.1", fmt.Sprint("10.0.0.", number))
	line = strings.ReplaceAll(line, "/var/lib/stele", fmt.Sprint("data", number))
	if has {
		line += "--initial-cluster " + rest
	}
	return line
}

func (h host) command(ctx context.Context, line string) *exec.Cmd {
	line = strings.ReplaceAll(line, "10.0.0.", h.net)
	command := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
	command.Dir, command.Env = h.dir, append(os.Environ(), "PATH="+h.path)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// The commands of the guide to a secured cluster are run as they stand there, for three members.
func TestTheGuideToASecuredClusterIsTrue(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	h := host{t: t, dir: t.TempDir(), net: fmt.Sprintf("127.%d.%d.", 100+os.Getpid()/250%100, 1+os.Getpid()%250)}
	programs := t.TempDir()
	for name, path := range map[string]string{"stele": *bin, "etcdctl": cluster.ToolPath("etcdctl")} {
		if err := os.Symlink(must(filepath.Abs(path)), filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	// The members share this machine and its folder: a copy only has to name what is there.
	copies := "#!/bin/sh\nfor last; do :; done\nfor file; do test \"$file\" = \"$last\" || test -s \"$file\" || exit 1; done\n"
	if err := os.WriteFile(filepath.Join(programs, "scp"), []byte(copies), 0o700); err != nil {
		t.Fatal(err)
	}
	h.path = programs + ":" + os.Getenv("PATH")
	commands := guide(t, "### A secured cluster")
	if len(commands) != 4 {
		t.Fatalf("%d paragraphs: certificates, copies, a member, and a client are expected", len(commands))
	}
	// What is typed: each line, but the command of the first member once for each, and that of the client once.
	if typed := len(commands[0]) + len(commands[1]) + members + 1; typed > maxTyped {
		t.Errorf("%d commands are typed, more than %d", typed, maxTyped)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := func(line string) {
		if out, err := h.command(ctx, line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	for _, line := range append(commands[0], commands[1]...) {
		run(line)
	}
	for number := 1; number <= members; number++ {
		h.start(ctx, ofMember(strings.Join(commands[2], " "), number))
	}
	var out []byte
	defer func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	}()
	await(t, "the client is answered", func() bool {
		var err error
		out, err = h.command(ctx, strings.Join(commands[3], " ")).CombinedOutput()
		return err == nil && strings.Contains(string(out), "is healthy")
	})
	without, _, _ := strings.Cut(strings.Join(commands[3], " "), " --cert ")
	if out, err := h.command(ctx, without+" --command-timeout=500ms endpoint health").CombinedOutput(); err == nil {
		t.Errorf("a client without a certificate was answered: %s", out)
	}
}

// start runs a member until the test ends; the end of its log is shown when it fails.
func (h host) start(ctx context.Context, line string) {
	command := h.command(ctx, line)
	log := must(os.Create(filepath.Join(h.dir, fmt.Sprint("log", len(must(os.ReadDir(h.dir)))))))
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		log.Close()
		if text := must(os.ReadFile(log.Name())); h.t.Failed() {
			h.t.Logf("%s\n%s", line, text[max(0, len(text)-4000):])
		}
	})
}
