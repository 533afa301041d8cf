package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// StelePath is the server to test: STELE_BIN, else the newest kind of build that exists under target/.
func StelePath() string {
	if path := os.Getenv("STELE_BIN"); path != "" {
		return path
	}
	release := filepath.Join(testsDir(), "..", "target", "release", "stele")
	debug := filepath.Join(testsDir(), "..", "target", "debug", "stele")
	if _, err := os.Stat(release); err != nil {
		if _, err := os.Stat(debug); err == nil {
			return debug
		}
	}
	return release
}

// EtcdPath is the reference server: ETCD_BIN, else the one built into tests/.bin.
func EtcdPath() string {
	if path := os.Getenv("ETCD_BIN"); path != "" {
		return path
	}
	return filepath.Join(testsDir(), ".bin", "etcd")
}

// EtcdTool is a tool of etcd's, such as etcdutl: it lies where the reference server does.
func EtcdTool(name string) string { return filepath.Join(filepath.Dir(EtcdPath()), name) }

// ToolPath is a program of tests/binaries.json, built into tests/.bin.
func ToolPath(name string) string { return filepath.Join(testsDir(), ".bin", name) }

// testsDir is the directory tests/, wherever the test binary was started from.
func testsDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// checkBinary says how to get a server when there is none, which is kinder than an exec error per member.
func checkBinary(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("no server binary at %s: build it, or name one with STELE_BIN, ETCD_BIN or a flag", path)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}

// IsStele says whether a server is ours, by its name: some tests look at what only Stele writes.
func IsStele(path string) bool { return strings.HasPrefix(filepath.Base(path), "stele") }

// subcommand gives the words between the binary and etcd's flags: Stele's one binary wants to hear `server`.
func subcommand(path string) []string {
	if IsStele(path) {
		return []string{"server"}
	}
	return nil
}
