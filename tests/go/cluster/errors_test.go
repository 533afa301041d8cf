package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestErrorsThatATestDoesNotAllowAreFound(t *testing.T) {
	m := &Member{logPath: filepath.Join(t.TempDir(), "log")}
	mustFind := func(want []string, allowed ...string) {
		t.Helper()
		if found, err := m.errorLines(allowed); err != nil || !slices.Equal(found, want) {
			t.Errorf("with %q allowed: %q, %v instead of %q", allowed, found, err, want)
		}
	}
	mustFind(nil)
	const damaged, last = `{"level":"error","msg":"found damaged data"}`, `{"level":"error","msg":"member failed"}`
	text := `{"level":"info","msg":"\"level\":\"error\""}` + "\n" + damaged + "\nplain\n" + last
	if err := os.WriteFile(m.logPath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mustFind([]string{damaged, last})
	mustFind([]string{last}, "damaged", "other")
	mustFind(nil, "damaged", "failed")
}
