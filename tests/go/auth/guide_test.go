package auth

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stele.test/cluster"
)

// TestTheGuideToAuthenticationIsTrue makes the calls of docs/operating/security.md as they stand there: each succeeds, but
// those whose comment says otherwise.
func TestTheGuideToAuthenticationIsTrue(t *testing.T) {
	text := string(must[[]byte](t)(os.ReadFile(filepath.Join("..", "..", "..", "docs", "operating", "security.md"))))
	_, text, found := strings.Cut(text, "\n## Turn authentication on\n")
	_, text, begins := strings.Cut(text, "```sh\n")
	text, _, ends := strings.Cut(text, "```")
	if !found || !begins || !ends {
		t.Fatal("there are no commands")
	}
	s := start(t, *bin, 1)[0]
	programs := t.TempDir()
	tool := must[string](t)(filepath.Abs(cluster.ToolPath("etcdctl")))
	if err := os.Symlink(tool, filepath.Join(programs, "etcdctl")); err != nil {
		t.Fatal(err)
	}
	denials := 0
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		words, comment, _ := strings.Cut(line, "#")
		if strings.Contains(words, "user add ") {
			words += " --interactive=false"
		}
		command := exec.CommandContext(s.as(""), "sh", "-c", words)
		command.Stdin = strings.NewReader("PASSWORD\n")
		command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+s.cluster.Members[0].ClientURL)
		output, err := command.CombinedOutput()
		if isDenied := strings.Contains(comment, "permission denied"); isDenied {
			denials++
			if err == nil || !strings.Contains(string(output), denied) {
				t.Errorf("%s: %v instead of the denial: %s", line, err, output)
			}
		} else if err != nil {
			t.Fatalf("%s: %v: %s", line, err, output)
		}
	}
	if denials != 1 {
		t.Errorf("%d lines say that permission is denied", denials)
	}
}
