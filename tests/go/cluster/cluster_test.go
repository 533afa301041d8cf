package cluster_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"

	"stele.test/cluster"
)

var bin = flag.String("bin", cluster.StelePath(), "the server to test")

func TestEveryMemberCanBeHurtAndComesBack(t *testing.T) {
	c := cluster.ForTest(t, cluster.Config{Binary: *bin, Size: 3})
	for i, m := range c.Members {
		switch i {
		case 0:
			m.Kill()
		case 1:
			if err := m.Terminate(); err != nil && m.Running() {
				t.Fatalf("terminate: %v", err)
			}
		case 2:
			freezeAndThaw(t, m)
			continue
		}
		if m.Running() {
			t.Fatalf("%s still runs", m.Name)
		}
		if err := m.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func freezeAndThaw(t *testing.T, m *cluster.Member) {
	t.Helper()
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	if !m.Running() {
		t.Fatal("a frozen member is still a process")
	}
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAMissingBinaryIsAnError(t *testing.T) {
	_, err := cluster.Start(context.Background(), cluster.Config{Binary: filepath.Join(t.TempDir(), "none")})
	if err == nil {
		t.Fatal("started a server that does not exist")
	}
}

func TestAServerThatEndsIsAnErrorAtOnce(t *testing.T) {
	config := cluster.Config{Binary: *bin, Args: []string{"--no-such-flag"}}
	if _, err := cluster.Start(context.Background(), config); err == nil {
		t.Fatal("started with a flag that does not exist")
	}
}
