package utl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
	"stele.test/contract"
	"stele.test/manual"
)

// page is docs/operating/migrate.md, all of whose commands the tests of this package run.
var page = sync.OnceValues(func() (*manual.Page, error) { return manual.Open("migrate.md") })

// offered is what etcdutl offers.
var offered = sync.OnceValues(func() (*contract.Contract, error) {
	return contract.Read("testdata/contract.txt", map[string]string{"-w": "--write-out"})
})

// TestMain runs the tests; together they must run each command of the page, and each command and option of etcdutl.
func TestMain(m *testing.M) {
	p, err := page()
	if err != nil {
		panic(err)
	}
	c, err := offered()
	if err != nil {
		panic(err)
	}
	os.Exit(c.RunAll(m, p.RunAll))
}

// guide runs the procedures of the page in a directory of its own.
type guide struct {
	dir      string
	programs string
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	programs := map[string]string{
		"stele": cluster.StelePath(), "etcdctl": cluster.EtcdTool("etcdctl"), "etcdutl": cluster.EtcdTool("etcdutl"),
	}
	return &guide{dir: t.TempDir(), programs: manual.Tools(t, programs)}
}

// command is the block of commands that has a line which begins so, with these variables.
func (g *guide) command(t *testing.T, begin string, variables ...string) *exec.Cmd {
	t.Helper()
	p, err := page()
	check(t, err)
	cmd, err := p.Command(patiently(t), g.dir, g.programs, begin, append(variables, "ETCDCTL_USER=root:"+password)...)
	check(t, err)
	return cmd
}

// follow runs a block to its end, and returns what it prints.
func (g *guide) follow(t *testing.T, begin string, variables ...string) string {
	t.Helper()
	cmd := g.command(t, begin, variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, cmd, out)
	}
	return string(out)
}

// TestARunningClusterMovesByTheManual copies a running etcd as the manual says, and switches.
func TestARunningClusterMovesByTheManual(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath()})
	destination := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	from, to, g := connect(t, source, ""), connect(t, destination, ""), newGuide(t)
	_, err := from.Put(patiently(t), "key", "one")
	check(t, err)
	sides := []string{"ETCD=" + source.Endpoints()[0], "STELE=" + destination.Endpoints()[0]}
	copying := g.command(t, "stele ctl follow --endpoints=$ETCD $STELE", sides...)
	// A signal goes to the command and not to its shell alone.
	copying.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, copying.Start())
	watch := to.Watch(patiently(t), "key")
	found, err := to.Get(patiently(t), "key")
	check(t, err)
	if len(found.Kvs) == 0 {
		<-watch
	}
	_, err = from.Put(patiently(t), "key", "two")
	check(t, err)
	check(t, syscall.Kill(-copying.Process.Pid, syscall.SIGINT))
	// The shell ends by the signal.
	_ = copying.Wait()
	out := g.follow(t, "stele ctl follow --endpoints=$ETCD --until-caught-up", sides...)
	if !strings.Contains(out, "verified: 1 keys") || !strings.Contains(out, "removed the state key") {
		t.Errorf("the end says %s", out)
	}
	found, err = to.Get(patiently(t), "", clientv3.WithPrefix())
	check(t, err)
	if len(found.Kvs) != 1 || string(found.Kvs[0].Value) != "two" {
		t.Errorf("the destination has %v", found.Kvs)
	}
}

// TestRevisionsAreRaisedByTheManual restores a snapshot with its revision raised, and repairs a stopped member's directory.
func TestRevisionsAreRaisedByTheManual(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	put, err := connect(t, source, "").Put(patiently(t), "key", "x")
	check(t, err)
	g := newGuide(t)
	if r := run(t, cluster.EtcdTool("etcdctl"), "--endpoints="+source.Endpoints()[0], "snapshot", "save", filepath.Join(g.dir, "snapshot.db")); r.code != 0 {
		t.Fatalf("snapshot save: %+v", r)
	}
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(),
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			g.follow(t, "stele utl snapshot restore snapshot.db --bump-revision", variables(m, initialCluster, token)...)
			return nil
		}})
	found, err := connect(t, c, "").Get(patiently(t), "key")
	check(t, err)
	if found.Header.Revision != put.Header.Revision+1_000_000_000 {
		t.Errorf("revision %d, raised, is %d", put.Header.Revision, found.Header.Revision)
	}
	stop(c.Members[0])
	out := g.follow(t, "stele utl repair", "STELE_DIR="+c.Members[0].DataDir, "COPY="+filepath.Join(t.TempDir(), "copy"))
	if !strings.Contains(out, "nothing is to be repaired") {
		t.Errorf("repair says %s", out)
	}
	check(t, c.Members[0].Restart(t.Context()))
}
