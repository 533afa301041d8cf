package ctl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stele.test/cluster"
)

// TestShellsComplete loads the scripts of all programs of the binary into one shell, and completes a line of each. Bash is
// there on every machine of ours; zsh completes only on a terminal, and is tried by hand.
func TestShellsComplete(t *testing.T) {
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
	scripts := []string{"stele bench", "stele ctl", "stele utl", "etcdctl"}
	for shell, ask := range shells {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil && shell != "bash" {
				t.Skipf("there is no %s here", shell)
			}
			var load strings.Builder
			for _, program := range scripts {
				form := map[string]string{"bash": "source <(%s completion %s)\n", "fish": "%s completion %s | source\n"}[shell]
				fmt.Fprintf(&load, form, program, shell)
			}
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
				cmd := exec.Command(shell, "-c", load.String()+ask, line)
				cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
				out, err := cmd.CombinedOutput()
				if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
					t.Errorf("%s: %q becomes %q instead of %q (%v)", shell, line, got, want, err)
				}
			}
		})
	}
}
