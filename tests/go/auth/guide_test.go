package auth

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"stele.test/cluster"
	"stele.test/manual"
)

// TestTheGuideToAuthenticationIsTrue makes the calls of docs/operating/security.md as they stand there: each succeeds, but
// those whose comment says otherwise.
func TestTheGuideToAuthenticationIsTrue(t *testing.T) {
	t.Parallel()
	text := must[string](t)(must[*manual.Page](t)(manual.Open("security.md")).Block("etcdctl user add root"))
	s := start(t, *bin, 1)[0]
	programs := manual.Tools(t, map[string]string{"etcdctl": cluster.ToolPath("etcdctl")})
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
