package ctl

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stele.test/cluster"
)

// completed are the programs that complete, by the words before `completion`.
var completed = []string{"stele bench", "stele ctl", "stele utl", "etcdctl"}

// completingPrograms is a directory with links to the binary.
func completingPrograms(t *testing.T) string {
	t.Helper()
	stele, err := filepath.Abs(cluster.StelePath())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"stele", "etcdctl"} {
		if err := os.Symlink(stele, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell is the path of a shell; a test that needs it is skipped without it.
func shell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	return path
}

// loaded writes the scripts of all programs for a shell into files, and returns the lines that load them.
func loaded(t *testing.T, dir, shell string) string {
	t.Helper()
	var load strings.Builder
	for i, program := range completed {
		words := append(strings.Fields(program), "completion", shell)
		script, err := exec.Command(filepath.Join(dir, words[0]), words[1:]...).Output()
		file := filepath.Join(dir, fmt.Sprint("script-", shell, i))
		if err == nil {
			err = os.WriteFile(file, script, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&load, "source %s\n", file)
	}
	return load.String()
}

// TestZshCompletes does so on a terminal, as zsh completes nowhere else: it types lines and the key of tabulators, and a
// key that shows what has become of the line.
func TestZshCompletes(t *testing.T) {
	t.Parallel()
	zsh, dir := shell(t, "zsh"), completingPrograms(t)
	load := fmt.Sprintf("PATH=%s:$PATH; autoload -Uz compinit && compinit -u -D\n", dir) + loaded(t, dir, "zsh") +
		"show() { zle -I; print -r -- \"line<$BUFFER>\"; BUFFER=''; }; zle -N show; bindkey '^X' show\n" +
		"print ready-$((1 + 1))\n"
	term := inTerminal(t, &program{path: zsh}, 200, "-f", "-i")
	io.WriteString(term.master, load)
	term.shows(t, "ready-2")
	for line, want := range map[string]string{
		"stele u": "stele utl ", "stele ctl endpoint hea": "stele ctl endpoint health ", "stele utl snapshot r": "stele utl snapshot restore ",
		"stele bench pu": "stele bench put ", "etcdctl move": "etcdctl move-leader ", "stele ctl backup --enc": "stele ctl backup --encryption-key-file ",
	} {
		io.WriteString(term.master, line+"\t\x18")
		term.shows(t, "line<"+want+">")
	}
	// What is not unique is listed.
	io.WriteString(term.master, "stele ctl endpoint \t")
	for _, name := range []string{"hashkv", "health", "status"} {
		term.shows(t, name)
	}
	if text := term.text(); strings.Contains(text, "zsh: ") {
		t.Errorf("zsh says %s", text)
	}
}

// TestPowerShellTakesTheScripts loads them, and prints nothing about it.
func TestPowerShellTakesTheScripts(t *testing.T) {
	t.Parallel()
	pwsh, dir := shell(t, "pwsh"), completingPrograms(t)
	for _, program := range completed {
		cmd := exec.Command(pwsh, "-NoProfile", "-Command", program+" completion powershell | Out-String | Invoke-Expression")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", program, err, out)
		}
	}
}

// TestShellsComplete loads the scripts of all programs of the binary into one shell, and completes a line of each. Bash is
// there on every machine of ours.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	dir := completingPrograms(t)
	if err := os.WriteFile(filepath.Join(dir, "a-snapshot"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// What completes a line, given the lines that load the scripts.
	shells := map[string]string{
		"bash": `COMP_LINE="$0"; COMP_POINT=${#COMP_LINE}; COMP_WORDS=($COMP_LINE); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete=$(complete -p "${COMP_WORDS[0]}" | sed 's/.*-F \([^ ]*\).*/\1/')
$complete "${COMP_WORDS[0]}" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
printf '%s\n' "${COMPREPLY[@]}"`,
		"fish": `complete -C "$argv[1]" | cut -f1`,
	}
	for name, ask := range shells {
		t.Run(name, func(t *testing.T) {
			path := shell(t, name)
			load := loaded(t, dir, name)
			for line, want := range map[string]string{
				"stele u": "utl", "stele ctl endp": "endpoint", "stele ctl endpoint h": "hashkv health", "stele utl snap": "snapshot",
				"stele bench pu": "put", "etcdctl move": "move-leader",
				"stele ctl back": "backup", "stele ctl foll": "follow", "stele ctl backup --enc": "--encryption-key-file",
				"stele utl rest": "restore", "stele utl backup v": "verify", "stele utl ver": "verify version",
				"stele utl restore --to-": "--to-revision --to-time", "stele utl restore --bump": "--bump-revision",
				// File names, where a command takes one.
				"stele utl snapshot status " + dir + "/a-sn": dir + "/a-snapshot",
				"etcdctl snapshot save " + dir + "/a-sn":     dir + "/a-snapshot",
			} {
				cmd := exec.Command(path, "-c", load+ask, line)
				cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
				out, err := cmd.CombinedOutput()
				if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
					t.Errorf("%s: %q becomes %q instead of %q (%v)", name, line, got, want, err)
				}
			}
		})
	}
}
