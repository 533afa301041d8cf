package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// interval is the time between two measured calls: 200 a second.
	interval = 5 * time.Millisecond
	// quiet is how long calls are measured before the attack, to compare with.
	quiet = 5 * time.Second
	// atLeast is the time for which an attack is measured, with repetitions if it is shorter.
	atLeast = 5 * time.Second
	// slower is how many times slower the slowest hundredth of the calls may become; below the floor it does not count.
	slower = 2
	floor  = 2 * time.Millisecond
)

// endpointsVariable makes this program a well-behaved client of the endpoints that it names, and nothing else.
const endpointsVariable = "STELE_TEST_NEIGHBOUR"

func TestMain(m *testing.M) {
	if endpoints := os.Getenv(endpointsVariable); endpoints != "" {
		if err := behave(strings.Split(endpoints, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// behave says that it is ready, makes 200 calls a second until the input ends, and prints how long each took since it
// was due, as JSON.
func behave(endpoints []string) error {
	client, err := behavingClient(endpoints)
	if err != nil {
		return err
	}
	defer client.Close()
	for range warmUpCalls {
		if err := getOf(client); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	took := []time.Duration{}
	for due := time.Now(); ; due = due.Add(interval) {
		select {
		case <-stop:
			return json.NewEncoder(os.Stdout).Encode(took)
		case <-time.After(time.Until(due)):
		}
		if err := getOf(client); err != nil {
			return err
		}
		took = append(took, time.Since(due))
	}
}

// during runs an attack, with -long while calls of a process of its own are measured unless -latency=false. The member has one
// core; the attacker has what that process leaves of another, as if the two were machines of their own.
func (n *neighbour) during(member int, attack func()) {
	n.t.Helper()
	if !*long || !*latency {
		attack()
		return
	}
	if runtime.NumCPU() < 2 {
		n.t.Fatal("latencies beside an attack need two cores: -latency=false leaves them out")
	}
	schedule(n.t, member, normally, memberCore)
	schedule(n.t, os.Getpid(), whenIdle, clientCore)
	defer schedule(n.t, os.Getpid(), normally, anyCore)
	before := n.measure(func() { time.Sleep(quiet) })
	meanwhile := n.measure(func() {
		for began := time.Now(); time.Since(began) < atLeast; {
			attack()
		}
	})
	n.t.Logf("another client's calls: p50 %s, p99 %s before; p50 %s, p99 %s during %d calls", part(before, 50), part(before, 99),
		part(meanwhile, 50), part(meanwhile, 99), len(meanwhile))
	if was, is := part(before, 99), part(meanwhile, 99); is > slower*was && is > floor {
		n.t.Errorf("the slowest hundredth of another client's calls went from %s to %s", was, is)
	}
}

// measure has a process call 200 times a second while something runs, and returns how long each call took since it was
// due.
func (n *neighbour) measure(while func()) []time.Duration {
	n.t.Helper()
	program, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	child := exec.Command(program)
	child.Env = append(os.Environ(), endpointsVariable+"="+strings.Join(n.endpoints, ","))
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		n.t.Fatal(err)
	}
	// What runs may end the test.
	defer func() {
		input.Close()
		_ = child.Wait()
	}()
	schedule(n.t, child.Process.Pid, normally, clientCore)
	var ready string
	if _, err := fmt.Fscanln(output, &ready); err != nil {
		n.t.Fatalf("another client has not begun: %v", err)
	}
	while()
	input.Close()
	var took []time.Duration
	if err := json.NewDecoder(output).Decode(&took); err != nil {
		n.t.Fatalf("another client has failed: %v", err)
	}
	slices.Sort(took)
	return took
}

// part is the duration that so many of a hundred do not exceed.
func part(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
