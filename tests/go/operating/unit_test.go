package operating

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// TestTheUnitIsGoodForSystemd verifies stele.service as systemd reads it, with the binary under test.
func TestTheUnitIsGoodForSystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	_, file, _, _ := runtime.Caller(0)
	unit, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "..", "..", "docs", "operating", "stele.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The binary and the user of an installed package are not here.
	binary, err := filepath.Abs(*bin)
	if err != nil {
		t.Fatal(err)
	}
	installed := regexp.MustCompile(`(?m)^ExecStart=\S+`)
	if !installed.Match(unit) {
		t.Fatal("the unit starts nothing")
	}
	unit = installed.ReplaceAll(unit, []byte("ExecStart="+binary))
	path := filepath.Join(t.TempDir(), "stele.service")
	if err := os.WriteFile(path, unit, 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func() string {
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	if said := verify(); said != "" {
		t.Errorf("systemd-analyze: %s", said)
	}
	if err := os.WriteFile(path, append(unit, "\n[Service]\nNoSuchSetting=yes\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if verify() == "" {
		t.Error("a setting that does not exist is not found")
	}
}
