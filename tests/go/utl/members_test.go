package utl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// eventually repeats a call until it succeeds.
func eventually[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := call()
		if err == nil {
			return answer
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// rootOf makes a client of a member as soon as that can check passwords. A member with an alarm is never healthy, so its
// health is not asked for.
func rootOf(t *testing.T, m *cluster.Member) *clientv3.Client {
	t.Helper()
	client := eventually(t, func() (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL}, DialTimeout: 5 * time.Second, Username: "root", Password: password})
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// memberList is what a member knows of its cluster, by what was asked.
func memberList(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	listed := eventually(t, func() (*clientv3.MemberListResponse, error) { return client.MemberList(patiently(t)) })
	told := map[string]string{"cluster": fmt.Sprintf("%x", listed.Header.ClusterId)}
	for _, m := range listed.Members {
		told[fmt.Sprintf("member %x", m.ID)] = fmt.Sprintf("%s at %q, for clients %q, learner %v", m.Name, m.PeerURLs, m.ClientURLs, m.IsLearner)
	}
	return told
}

// withMembers is all that clients can ask a member, of data and of members.
func withMembers(t *testing.T, m *cluster.Member) map[string]string {
	t.Helper()
	client := rootOf(t, m)
	told := eventually(t, func() (map[string]string, error) {
		// The first answer waits for a leader; those after it are not repeated.
		if _, err := client.Get(patiently(t), "key"); err != nil {
			return nil, err
		}
		return answers(t, client), nil
	})
	for asked, answer := range memberList(t, client) {
		told[asked] = answer
	}
	return told
}

// goOn makes the next run of a member one of another program, with another directory.
func goOn(m *cluster.Member, binary, dir string) {
	m.RemoveFlag("--data-dir=" + m.DataDir)
	m.AddFlag("--data-dir=" + dir)
	m.DataDir = dir
	m.UseBinary(binary)
}

// joinedLearner adds a learner to a cluster and starts it. It returns when the cluster knows its name.
func joinedLearner(t *testing.T, c *cluster.Cluster, root *clientv3.Client, args ...string) *cluster.Member {
	t.Helper()
	urls := map[string]string{}
	for _, m := range c.Members {
		urls[m.Name] = m.PeerURL
	}
	learner, err := c.Layout(cluster.EtcdPath(), args...)
	check(t, err)
	_, err = root.MemberAddAsLearner(patiently(t), []string{learner.PeerURL})
	check(t, err)
	urls[learner.Name] = learner.PeerURL
	learner.JoinExisting(urls)
	check(t, learner.Start())
	eventually(t, func() (string, error) {
		for _, shown := range memberList(t, root) {
			if strings.HasPrefix(shown, learner.Name+" at ") {
				return shown, nil
			}
		}
		return "", errors.New("the learner has not said its name")
	})
	return learner
}

// leaderOf is the member that leads.
func leaderOf(t *testing.T, members []*cluster.Member) *cluster.Member {
	t.Helper()
	return eventually(t, func() (*cluster.Member, error) {
		for _, m := range members {
			status, err := rootOf(t, m).Status(patiently(t), m.ClientURL)
			if err == nil && status.Leader == status.Header.MemberId && status.Leader != 0 {
				return m, nil
			}
		}
		return nil, errors.New("no member leads")
	})
}

// stopAll ends all members, the one that leads last, and returns that one. Nothing may have been logged as an error.
func stopAll(t *testing.T, members []*cluster.Member) *cluster.Member {
	t.Helper()
	voters := members[:3]
	leader := leaderOf(t, voters)
	for _, m := range members {
		if m != leader {
			stop(m)
		}
	}
	leader.Kill()
	return leader
}

// hasNoErrors looks at the log of a run of Stele.
func hasNoErrors(t *testing.T, m *cluster.Member) {
	t.Helper()
	log, err := m.RunLog()
	check(t, err)
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, `{"level":"error"`) {
			t.Errorf("%s: %s", m.Name, line)
		}
	}
}

// removedMembers are the ids of former members in a directory of etcd.
func removedMembers(t *testing.T, dir string) (ids []string) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, &bolt.Options{ReadOnly: true})
	check(t, err)
	defer db.Close()
	check(t, db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("members_removed")).ForEach(func(id, _ []byte) error {
			ids = append(ids, string(id))
			return nil
		})
	}))
	return ids
}

// exportedState is what an export says of its state.
var exportedState = regexp.MustCompile(`the state after entry [1-9]\d* of term [1-9]\d*, with hash [0-9a-f]{16}: `)

// TestMembersGoToSteleAndBack takes a cluster of three voters and a learner from etcd to Stele and back. Its members, what
// was a member, its alarm and its data are the same each time. The database of the etcd that is imported has little: most
// is in its log, the learner and the alarm too.
func TestMembersGoToSteleAndBack(t *testing.T) {
	t.Parallel()
	late := []string{"--backend-batch-interval=1h", "--backend-batch-limit=1000000",
		// Members change before they have been connected for five seconds.
		"--strict-reconfig-check=false"}
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath(), Size: 3, Args: late})
	client := connect(t, c, "")
	gone, err := client.MemberAddAsLearner(patiently(t), []string{"http://127.0.0.1:1"})
	check(t, err)
	_, err = client.MemberRemove(patiently(t), gone.Member.ID)
	check(t, err)
	fill(t, client)
	voters, root := c.Members, rootOf(t, c.Members[0])
	learner := joinedLearner(t, c, root, late...)
	alarm := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 0xabc, Alarm: pb.AlarmType_NOSPACE}
	_, err = pb.NewMaintenanceClient(root.ActiveConnection()).Alarm(patiently(t), &alarm)
	check(t, err)
	want := withMembers(t, voters[0])
	if len(memberList(t, root)) != 5 || want["alarm NOSPACE of abc"] == "" {
		t.Fatalf("etcd has %v", want)
	}
	leader := stopAll(t, c.Members)
	g := newGuide(t)

	// Every member of Stele is made of the same directory.
	source := copiedDir(t, leader.DataDir)
	for _, m := range c.Members {
		dir := filepath.Join(t.TempDir(), m.Name)
		out := g.follow(t, "stele utl import $ETCD_DIR --name", "ETCD_DIR="+source, "NAME="+m.Name, "DATA_DIR="+dir)
		if !strings.Contains(out, "entries of its log behind the database") || !strings.Contains(out, "of cluster "+want["cluster"]) {
			t.Errorf("import says %s", out)
		}
		goOn(m, cluster.StelePath(), dir)
	}
	own := utl(t, "import", source, "--data-dir="+filepath.Join(t.TempDir(), "own"))
	if id := idOf(t, want, leader.Name); !strings.Contains(own, "for member "+id+" of cluster") {
		t.Errorf("without a name, the directory of member %s is for another: %s", id, own)
	}
	for _, m := range voters {
		check(t, m.Start())
	}
	// The learner does not run yet: what is known of it comes from the import.
	for _, m := range voters {
		compare(t, "Stele's "+m.Name, want, withMembers(t, m))
	}
	check(t, learner.Start())
	learnerID := learns(t, rootOf(t, voters[0]), learner)
	leader = stopAll(t, c.Members)
	for _, m := range c.Members {
		hasNoErrors(t, m)
	}

	// And every member of etcd.
	source = leader.DataDir
	states := map[string]bool{}
	for _, m := range c.Members {
		dir := filepath.Join(t.TempDir(), m.Name)
		out := g.follow(t, "stele utl export $ETCD_DIR --as-directory --name", "ETCD_DIR="+dir, "NAME="+m.Name, "STELE_DIR="+source)
		states[exportedState.FindString(out)] = true
		if removed := removedMembers(t, dir); !slices.Contains(removed, fmt.Sprintf("%x", gone.Member.ID)) {
			t.Errorf("former members are %q", removed)
		}
		goOn(m, cluster.EtcdPath(), dir)
		check(t, m.Start())
	}
	if len(states) != 1 || states[""] {
		t.Errorf("the exports of one directory are of the states %v", states)
	}
	for _, m := range voters {
		compare(t, "etcd's "+m.Name, want, withMembers(t, m))
	}
	root = rootOf(t, voters[0])
	if id := learns(t, root, learner); id != learnerID {
		t.Errorf("the learner has the id %x instead of %x", id, learnerID)
	}
	eventually(t, func() (any, error) { return root.MemberPromote(patiently(t), learnerID) })
	goesOn(t, c.Members)
}

// learns waits until a member runs, as a learner, and returns its id.
func learns(t *testing.T, root *clientv3.Client, learner *cluster.Member) uint64 {
	t.Helper()
	return eventually(t, func() (uint64, error) {
		status, err := root.Status(patiently(t), learner.ClientURL)
		if err != nil || !status.IsLearner {
			return 0, fmt.Errorf("the learner answers %v, %v", status, err)
		}
		return status.Header.MemberId, nil
	})
}

// idOf is the id of the member with a name.
func idOf(t *testing.T, told map[string]string, name string) string {
	t.Helper()
	for asked, answer := range told {
		if id, isMember := strings.CutPrefix(asked, "member "); isMember && strings.HasPrefix(answer, name+" at ") {
			return id
		}
	}
	t.Fatalf("no member %s in %v", name, told)
	return ""
}

// goesOn ends the alarm and writes: all members have the same then.
func goesOn(t *testing.T, members []*cluster.Member) {
	t.Helper()
	root := rootOf(t, members[0])
	alarms, err := root.AlarmList(patiently(t))
	check(t, err)
	for _, alarm := range alarms.Alarms {
		_, err = root.AlarmDisarm(patiently(t), (*clientv3.AlarmMember)(alarm))
		check(t, err)
	}
	put, err := root.Put(patiently(t), "after", "x")
	check(t, err)
	want, err := root.HashKV(patiently(t), members[0].ClientURL, put.Header.Revision)
	check(t, err)
	for _, m := range members {
		client := rootOf(t, m)
		found, err := client.Get(patiently(t), "after")
		check(t, err)
		got, err := client.HashKV(patiently(t), m.ClientURL, put.Header.Revision)
		check(t, err)
		if len(found.Kvs) != 1 || got.Hash != want.Hash {
			t.Errorf("%s has %v and the hash %x instead of %x", m.Name, found.Kvs, got.Hash, want.Hash)
		}
	}
}

// rewriteRecords changes records of a directory of etcd that does not run.
func rewriteRecords(t *testing.T, dir string, change func(members, meta *bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, nil)
	check(t, err)
	defer db.Close()
	check(t, db.Update(func(tx *bolt.Tx) error {
		return change(tx.Bucket([]byte("members")), tx.Bucket([]byte("meta")))
	}))
}

// TestRolesAreThoseOfRaft imports a lone voter whose records are wrong, or missing, or of the cluster before a restore. As a
// learner it would be refused.
func TestRolesAreThoseOfRaft(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath()})
	_, err := connect(t, source, "").Put(patiently(t), "key", "value")
	check(t, err)
	m := source.Members[0]
	stop(m)
	imported := func(dir string) string {
		return utl(t, "import", dir, "--data-dir="+filepath.Join(t.TempDir(), "stele"))
	}
	whole := imported(m.DataDir)

	learner := copiedDir(t, m.DataDir)
	asLearner := func(members, meta *bolt.Bucket) error {
		id, record := members.Cursor().First()
		return members.Put(id, bytes.Replace(record, []byte(`"peerURLs"`), []byte(`"isLearner":true,"peerURLs"`), 1))
	}
	rewriteRecords(t, learner, asLearner)
	if said := imported(learner); said != whole {
		t.Errorf("with a record of a learner import says %s instead of %s", said, whole)
	}
	rewriteRecords(t, learner, func(members, meta *bolt.Bucket) error { return meta.Delete([]byte("confState")) })
	if said := imported(learner); said != whole {
		t.Errorf("without a configuration import says %s instead of %s", said, whole)
	}
	rewriteRecords(t, learner, func(members, meta *bolt.Bucket) error {
		return members.Put([]byte("1f"), []byte(`{"id":31,"peerURLs":["http://127.0.0.1:1"]}`))
	})
	target := filepath.Join(t.TempDir(), "refused")
	r := run(t, cluster.StelePath(), "utl", "import", learner, "--data-dir="+target)
	expectLine(t, r, 1, "its database has the members 1f, ")
	expectLine(t, r, 1, "begin a new one with --initial-cluster")
	if _, err := os.Stat(target); err == nil {
		t.Error("the target was made")
	}

	restored := filepath.Join(t.TempDir(), "restored")
	if r := run(t, cluster.EtcdTool("etcdutl"), "snapshot", "restore", filepath.Join(m.DataDir, "member", "snap", "db"), "--skip-hash-check",
		"--name=n", "--initial-cluster=n=http://127.0.0.1:1", "--initial-advertise-peer-urls=http://127.0.0.1:1", "--data-dir="+restored); r.code != 0 {
		t.Fatalf("etcdutl: %+v", r)
	}
	rewriteRecords(t, restored, func(members, meta *bolt.Bucket) error {
		id, _ := members.Cursor().First()
		number, err := strconv.ParseUint(string(id), 16, 64)
		if conf := meta.Get([]byte("confState")); len(conf) == 0 || strings.Contains(string(conf), strconv.FormatUint(number, 10)) {
			t.Errorf("the configuration is not that of the cluster before: %s", conf)
		}
		return errors.Join(err, asLearner(members, meta))
	})
	if said := imported(restored); said == whole || !strings.Contains(said, "restored 1 keys at revision 2") {
		t.Errorf("after a restore import says %s", said)
	}
}

// TestANewClusterOfEtcdBeginsWithAnExport makes three members of one directory of Stele, with other members.
func TestANewClusterOfEtcdBeginsWithAnExport(t *testing.T) {
	t.Parallel()
	newClusterOf(t, cluster.EtcdPath())
}

// newClusterOf starts three members of a release with a state of Stele.
func newClusterOf(t *testing.T, binary string) {
	t.Helper()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	fill(t, connect(t, source, ""))
	want := answers(t, connect(t, source, "root"))
	stop(source.Members[0])
	g := newGuide(t)
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Size: 3,
		Prepare: func(m *cluster.Member, initialCluster, token string) error {
			g.follow(t, "stele utl export $ETCD_DIR --as-directory --initial-cluster", "ETCD_DIR="+m.DataDir, "STELE_DIR="+source.Members[0].DataDir,
				"NAME="+m.Name, "CLUSTER="+initialCluster, "TOKEN="+token, "PEER_URL="+m.PeerURL)
			return nil
		}})
	for _, m := range c.Members {
		compare(t, m.Name, want, answers(t, rootOf(t, m)))
	}
	if told := memberList(t, connect(t, c, "root")); len(told) != 4 {
		t.Errorf("the members are %v", told)
	}
	goesOn(t, c.Members)
	// It restarts from what it has written itself.
	stop(c.Members[0])
	check(t, c.Members[0].Restart(t.Context()))
	goesOn(t, c.Members)
}

// TestAnOlderReleaseGoesOn starts members of an older release with what Stele exports: a new cluster, and, with etcd 3.6,
// the one that there was, in which a downgrade was enabled.
//
//	go test ./utl -run TestAnOlderReleaseGoesOn -older PATH
func TestAnOlderReleaseGoesOn(t *testing.T) {
	if *older == "" {
		t.Skip("no -older")
	}
	newClusterOf(t, *older)
	if r := run(t, *older, "--version"); !strings.Contains(r.out, "etcd Version: 3.6.") {
		return
	}
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	m := c.Members[0]
	fill(t, connect(t, c, ""))
	root := connect(t, c, "root")
	_, err := root.Downgrade(patiently(t), clientv3.DowngradeEnable, "3.6")
	check(t, err)
	eventually(t, func() (any, error) {
		status, err := root.Status(patiently(t), m.ClientURL)
		if err == nil && status.StorageVersion != "3.6.0" {
			err = fmt.Errorf("the storage version is %s", status.StorageVersion)
		}
		return status, err
	})
	want := withMembers(t, m)
	stop(m)
	dir := filepath.Join(t.TempDir(), "etcd")
	utl(t, "export", dir, "--as-directory", "--data-dir="+m.DataDir)
	goOn(m, *older, dir)
	check(t, m.Restart(t.Context()))
	compare(t, "etcd 3.6", want, withMembers(t, m))
	goesOn(t, c.Members)
}

// TestWhatCannotBeMovedWithItsMembersIsRefused gives names, directories and files that do not fit: one line says why, and
// nothing is written.
func TestWhatCannotBeMovedWithItsMembersIsRefused(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	m := source.Members[0]
	_, err := connect(t, source, "").Put(patiently(t), "key", strings.Repeat("value", 1000))
	check(t, err)
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	refused := func(why string, args ...string) {
		t.Helper()
		expectLine(t, run(t, cluster.StelePath(), append([]string{"utl", "--timeout=1ms"}, args...)...), 1, why)
		if _, err := os.Stat(target); err == nil {
			t.Fatalf("%q: the target was made", args)
		}
	}
	export := []string{"export", target, "--as-directory", "--data-dir=" + m.DataDir}
	refused("is in use by process", export...)
	stop(m)
	refused(`no member has the name "other": the members are m1 (`, append(export, "--name=other")...)
	refused(`couldn't find local name "other"`, append(export, "--name=other", "--initial-cluster=a=http://127.0.0.1:1")...)

	full := t.TempDir()
	check(t, os.WriteFile(filepath.Join(full, "kept"), []byte("x"), 0o600))
	refused("not empty", "export", full, "--as-directory", "--data-dir="+m.DataDir)
	check(t, os.Mkdir(filepath.Join(full, "unfinished-export"), 0o700))
	refused("an attempt before was cut short", "export", full, "--as-directory", "--data-dir="+m.DataDir)
	if names := listed(t, full); !slices.Equal(names, []string{"kept", "unfinished-export"}) {
		t.Errorf("a directory that is not empty has %q now", names)
	}

	etcdDir := filepath.Join(t.TempDir(), "etcd")
	utl(t, "export", etcdDir, "--as-directory", "--data-dir="+m.DataDir)
	refused(`no member has the name "other": the members are m1 (`, "import", etcdDir, "--name=other", "--data-dir="+target)
	for _, file := range []string{"snap/db", "wal/0000000000000000-0000000000000000.wal"} {
		damaged := copiedDir(t, etcdDir)
		path := filepath.Join(damaged, "member", file)
		whole, err := os.Stat(path)
		check(t, err)
		check(t, os.Truncate(path, whole.Size()/2))
		refused(damaged, "import", damaged, "--data-dir="+target)
	}

	nobodys := copiedDir(t, etcdDir)
	check(t, os.Truncate(filepath.Join(nobodys, "member", "wal", "0000000000000000-0000000000000000.wal"), 16))
	refused("has no record that says whose log it is", "import", nobodys, "--data-dir="+target)

	steleDir, large := copiedDir(t, m.DataDir), []byte(strings.Repeat("value", 100))
	segments, err := filepath.Glob(filepath.Join(steleDir, "member", "wal", "*"))
	check(t, err)
	holding := slices.IndexFunc(segments, func(path string) bool {
		content, err := os.ReadFile(path)
		return err == nil && bytes.Contains(content, large)
	})
	flip(t, segments[max(holding, 0)], large)
	r := run(t, cluster.StelePath(), "utl", "export", target, "--as-directory", "--data-dir="+steleDir)
	if _, err := os.Stat(target); r.code != 1 || !strings.Contains(r.errors, "`stele utl verify` lists all damage") || err == nil {
		t.Errorf("with a damaged value: %+v", r)
	}
}
