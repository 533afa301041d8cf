package dbfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"stele.test/cluster"
)

var olderUtl = flag.String("older-utl", "", "an etcdutl 3.6, for the test of snapshots while a downgrade is enabled")

// downgraded is the release that the test enables a downgrade to.
const downgraded = "3.6.0"

// TestTheSmallRecordsAreThoseOfEtcd gives Stele and etcd the same history of users, members, alarms and a downgrade, and
// compares the records about them in the files that both send.
func TestTheSmallRecordsAreThoseOfEtcd(t *testing.T) {
	t.Parallel()
	var records [2][]string
	for i, binary := range []string{cluster.StelePath(), cluster.EtcdPath()} {
		c := cluster.ForTest(t, cluster.Config{Binary: binary})
		m := member{cluster.ClientOf(t, patience, c.Members...), c.Members[0].ClientURL}
		names := smallHistory(t, m)
		names[c.Members[0].PeerURL], names[c.Members[0].ClientURL] = "peer URL", "client URL"
		records[i] = smallRecords(t, m, names)
	}
	for _, record := range records[0] {
		if !slices.Contains(records[1], record) {
			t.Errorf("only Stele has  %s", record)
		}
	}
	for _, record := range records[1] {
		if !slices.Contains(records[0], record) {
			t.Errorf("only etcd has   %s", record)
		}
	}
	for _, bucket := range []string{"alarm", "authRoles", "authUsers", "cluster", "members", "members_removed"} {
		if !slices.ContainsFunc(records[0], func(record string) bool { return strings.HasPrefix(record, bucket+" ") }) {
			t.Errorf("no record of %s was compared", bucket)
		}
	}
}

// While a downgrade is enabled, the snapshots are for tools of that release.
func TestAnOlderToolRestoresASnapshotOfADowngrade(t *testing.T) {
	if *olderUtl == "" {
		t.Skip("no etcdutl 3.6 was given: -older-utl PATH")
	}
	stele := start(t, cluster.Config{Binary: cluster.StelePath()})
	fill(t, stele, 200)
	smallHistory(t, stele)
	dir := t.TempDir()
	path, restored := filepath.Join(dir, "db"), filepath.Join(dir, "restored")
	if err := os.WriteFile(path, receiveOf(t, open(t, patiently(t), stele), downgraded), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		out, err := exec.CommandContext(patiently(t), *olderUtl, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	var told struct {
		Revision int64
		Version  string
	}
	if err := json.Unmarshal(run("snapshot", "status", path, "--write-out=json"), &told); err != nil {
		t.Fatal(err)
	}
	status, err := stele.Status(patiently(t), stele.url)
	if err != nil || told.Revision != status.Header.Revision || told.Version != downgraded {
		t.Errorf("the tool says %+v, the member %v, %v", told, status, err)
	}
	run("snapshot", "restore", path, "--data-dir="+restored)
	if _, err := os.Stat(filepath.Join(restored, "member", "snap", "db")); err != nil {
		t.Error(err)
	}
}

// smallHistory makes the records. It returns the ids of members, as text, with their names.
func smallHistory(t *testing.T, m member) map[string]string {
	t.Helper()
	ctx := patiently(t)
	check := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(m.Put(ctx, "k", "v"))
	check(m.RoleAdd(ctx, "reader"))
	check(m.RoleGrantPermission(ctx, "reader", "a", "b", clientv3.PermissionType(clientv3.PermRead)))
	check(m.RoleGrantPermission(ctx, "reader", "c", "", clientv3.PermissionType(clientv3.PermReadWrite)))
	check(m.RoleAdd(ctx, "empty"))
	check(m.UserAdd(ctx, "alice", "secret"))
	check(m.UserGrantRole(ctx, "alice", "reader"))
	check(m.UserAddWithOptions(ctx, "bob", "", &clientv3.UserAddOptions{NoPassword: true}))

	// Before there are members that never answer: they would hold it up.
	check(m.Downgrade(ctx, clientv3.DowngradeEnable, downgraded))
	for {
		status, err := m.Status(ctx, m.url)
		check(status, err)
		if status.StorageVersion == downgraded {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the storage version stays %s", status.StorageVersion)
		case <-time.After(50 * time.Millisecond):
		}
	}

	list, err := m.MemberList(ctx)
	check(list, err)
	names := map[string]string{}
	name := func(id uint64, name string) {
		names[fmt.Sprintf("%x", id)], names[fmt.Sprint(id)] = name, name
	}
	name(list.Members[0].ID, "own")
	for number, learner := range []string{"removed", "learner"} {
		added, err := m.MemberAddAsLearner(ctx, []string{fmt.Sprintf("http://127.0.0.1:%d", number+1)})
		check(added, err)
		name(added.Member.ID, learner)
		if learner == "removed" {
			check(m.MemberRemove(ctx, added.Member.ID))
		}
	}
	maintenance := pb.NewMaintenanceClient(m.ActiveConnection())
	for _, alarm := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
		request := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: list.Members[0].ID, Alarm: alarm}
		check(maintenance.Alarm(ctx, request))
	}
	return names
}

// smallRecords are the records of a member's snapshot that are not about keys and leases, as text: bucket, key, value.
// What differs between clusters is replaced by its name.
func smallRecords(t *testing.T, m member, names map[string]string) []string {
	t.Helper()
	file := receiveOf(t, open(t, patiently(t), m), downgraded)
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var found []string
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				text, err := describe(string(bucket), key, value, names)
				if text != "" {
					found = append(found, text)
				}
				return err
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// describe is a record as text, and empty for what is compared elsewhere or differs by nature: Raft's position.
func describe(bucket string, key, value []byte, names map[string]string) (string, error) {
	name := func(text string) string {
		if name, ok := names[text]; ok {
			return name
		}
		return text
	}
	shown := name(string(key))
	switch bucket {
	case "key", "lease":
		return "", nil
	case "meta":
		switch shown {
		case "confState":
			return named(bucket, shown, value, name)
		case "storageVersion":
			return fmt.Sprintf("%s %s: %s", bucket, shown, value), nil
		}
		return fmt.Sprintf("%s %s", bucket, shown), nil
	case "members":
		return named(bucket, shown, value, name)
	case "alarm":
		var alarm pb.AlarmMember
		if err := proto.Unmarshal(key, &alarm); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s of %s: %x", bucket, alarm.Alarm, name(fmt.Sprint(alarm.MemberID)), value), nil
	case "authUsers":
		var user authpb.User
		if err := proto.Unmarshal(value, &user); err != nil {
			return "", err
		}
		if len(user.Password) > 0 {
			user.Password = user.Password[:4]
		}
		return fmt.Sprintf("%s %s: %s", bucket, shown, textOf(&user)), nil
	case "authRoles":
		var role authpb.Role
		if err := proto.Unmarshal(value, &role); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s: %s", bucket, shown, textOf(&role)), nil
	}
	return fmt.Sprintf("%s %s: %q", bucket, shown, value), nil
}

// textOf is a message as text with the same spaces in every run, which prototext varies.
func textOf(message proto.Message) string {
	return strings.Join(strings.Fields(prototext.Format(message)), " ")
}

// named is a record with JSON in which ids and URLs are replaced by names.
func named(bucket, key string, value []byte, name func(string) string) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return "", fmt.Errorf("%s %s: %w", bucket, key, err)
	}
	text, err := json.Marshal(replaced(decoded, name))
	return fmt.Sprintf("%s %s: %s", bucket, key, text), err
}

func replaced(value any, name func(string) string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = replaced(inner, name)
		}
	case []any:
		for at, inner := range value {
			value[at] = replaced(inner, name)
		}
	case json.Number:
		return name(value.String())
	case string:
		return name(value)
	}
	return value
}
