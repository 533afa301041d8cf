package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// insideVariable tells a test process that it has namespaces of its own.
const insideVariable = "STELE_TEST_NETWORK_NAMESPACE"

// notPermitted says why there is no network to be made; empty if there is one.
var notPermitted string

// Main runs the tests of a package, for its TestMain, in a process with a network and mounts of its own, if that is
// permitted: whatever happens to it, nothing of the network stays behind. If not, New says why.
func Main(tests interface{ Run() int }) {
	if os.Getenv(insideVariable) == "" {
		code, err := runInside()
		if err == nil {
			os.Exit(code)
		}
		notPermitted = err.Error()
	} else if err := prepare(); err != nil {
		notPermitted = err.Error()
	}
	os.Exit(tests.Run())
}

// runInside runs this test binary again; the error is that it could not be started.
func runInside() (code int, err error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return 0, fmt.Errorf("there is no `ip` (iproute2): %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	// The signal comes when the thread ends that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("namespaces are not permitted: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// prepare gives `ip netns` a place for names that goes with the process, and the process a loopback.
func prepare() error {
	if err := syscall.Mount("none", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounts are not permitted: %w", err)
	}
	if err := os.Mkdir("/run/netns", 0o755); err != nil {
		return err
	}
	return ip("link", "set", "lo", "up")
}
