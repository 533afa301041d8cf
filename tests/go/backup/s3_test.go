package backup

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// store is an S3 server that can be away.
type store struct {
	isAway  atomic.Bool
	refused atomic.Int64
	// isClosed is whether it refuses all credentials.
	isClosed atomic.Bool
	// failingParts are how many parts of large objects are not taken.
	failingParts atomic.Int64
	parts        atomic.Int64
	backend      *s3mem.Backend
}

// startStore starts an S3 server with a bucket, and sets the variables that lead to it.
func startStore(t *testing.T) *store {
	t.Helper()
	s := &store{backend: s3mem.New()}
	check(t, s.backend.CreateBucket("stele"))
	handler := gofakes3.New(s.backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isAway.Load() {
			s.refused.Add(1)
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		if s.isClosed.Load() {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>InvalidAccessKeyId</Code><Message>unknown key</Message></Error>")
			return
		}
		if r.Method == http.MethodPut && r.URL.Query().Has("partNumber") {
			s.parts.Add(1)
			if s.failingParts.Add(-1) >= 0 {
				http.Error(w, "cut off", http.StatusBadRequest)
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT": server.URL, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something",
	} {
		t.Setenv(name, value)
	}
	return s
}

// objects are the names of all objects.
func (s *store) objects(t *testing.T) []string {
	t.Helper()
	list, err := s.backend.ListBucket("stele", nil, gofakes3.ListBucketPage{})
	check(t, err)
	var names []string
	for _, object := range list.Contents {
		names = append(names, object.Key)
	}
	return names
}

// metric is the greatest value of a metric among the members that run: the one that leads copies, and others may show
// what they copied before.
func metric(t *testing.T, c *cluster.Cluster, name string) float64 {
	t.Helper()
	greatest := 0.0
	for _, m := range c.Members {
		if !m.Running() {
			continue
		}
		answer, err := http.Get(m.ClientURL + "/metrics")
		if err != nil {
			continue
		}
		page, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		check(t, err)
		for _, line := range strings.Split(string(page), "\n") {
			if value, is := strings.CutPrefix(line, name+" "); is {
				number, err := strconv.ParseFloat(value, 64)
				check(t, err)
				greatest = max(greatest, number)
			}
		}
	}
	return greatest
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// leader waits until a member leads, and returns it.
func leader(t *testing.T, c *cluster.Cluster) *cluster.Member {
	t.Helper()
	client := cluster.ClientOf(t, patience, c.Members...)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, m := range c.Members {
			if !m.Running() {
				continue
			}
			status, err := client.Status(patiently(t), m.ClientURL)
			check(t, err)
			if status.Leader == status.Header.MemberId {
				return m
			}
		}
	}
	t.Fatal("no member leads")
	return nil
}

// newKey follows the manual.
func newKey(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	follow(t, dir, "(umask 077 && head")
	return filepath.Join(dir, "backup.key")
}

// TestMembersBackUpIntoAnS3Store lets three members copy themselves into a store that is away for a while, kills the one
// that leads, and restores three members of what is in the store.
func TestMembersBackUpIntoAnS3Store(t *testing.T) {
	s, key := startStore(t), newKey(t)
	archive := "s3://stele/one/cluster"
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Size: 3, Args: []string{
		"--backup-url=" + archive, "--backup-interval=100ms", "--backup-base-interval=1h", "--backup-keep=720h", "--backup-encryption-key-file=" + key}})
	client := cluster.ClientOf(t, patience, c.Members...)
	put := func(n int) *clientv3.PutResponse {
		t.Helper()
		answer, err := client.Put(patiently(t), fmt.Sprint("key/", n), strings.Repeat("secret value ", 100))
		check(t, err)
		return answer
	}
	last := put(1)
	backedUp := func() bool { return metric(t, c, "stele_backup_revision") >= float64(last.Header.Revision) }
	until(t, "the first put is in the archive", backedUp)

	c.AllowErrors("the backup failed")
	s.isAway.Store(true)
	last = put(2)
	until(t, "the store refuses something", func() bool { return s.refused.Load() > 0 })
	until(t, "a failure is counted", func() bool { return metric(t, c, "stele_backup_failures_total") > 0 })
	until(t, "the lag rises", func() bool { return metric(t, c, "stele_backup_lag_seconds") > 0.5 })
	s.isAway.Store(false)
	until(t, "the second put is in the archive", backedUp)
	until(t, "what is written is counted", func() bool {
		return metric(t, c, "stele_backup_bases_total") > 0 && metric(t, c, "stele_backup_log_objects_total") > 0 &&
			metric(t, c, "stele_backup_bytes_total") > 0
	})

	leader(t, c).Kill()
	check(t, cluster.PutUntilAnswered(patiently(t), client, "key/3", "x"))
	last = put(4)
	until(t, "the next leader goes on", backedUp)
	names := s.objects(t)
	isName := regexp.MustCompile(`^one/cluster/(stele-backup|progress|base/\d{20}-r\d+-t\d+|log/\d{20})$`)
	if i := slices.IndexFunc(names, func(name string) bool { return !isName.MatchString(name) }); i >= 0 {
		t.Errorf("object %q", names[i])
	}
	if bases := slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, "/base/") }); len(bases) != 1 {
		t.Errorf("bases: %q", bases)
	}
	found, err := client.Get(patiently(t), "", clientv3.WithPrefix())
	check(t, err)

	refused(t, "a key is needed", archive)
	refused(t, "another key", archive, "--encryption-key-file="+newKey(t))
	refused(t, "holds no archive", "s3://nobucket/x")
	target := []string{"--encryption-key-file=" + key, fmt.Sprint("--to-revision=", last.Header.Revision)}
	again := restored(t, 3, archive, target...)
	for _, m := range again.Members {
		got, err := cluster.ClientOf(t, patience, m).Get(patiently(t), "", clientv3.WithPrefix(), clientv3.WithSerializable())
		check(t, err)
		if fmt.Sprint(got.Kvs) != fmt.Sprint(found.Kvs) {
			t.Errorf("%s has %v instead of %v", m.Name, got.Kvs, found.Kvs)
		}
	}
	_, err = cluster.ClientOf(t, patience, again.Members...).Put(patiently(t), "after", "x")
	check(t, err)
	t.Setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
	refused(t, "cannot read stele-backup", archive)
}

// TestAnS3StoreTakesLargeObjectsAndForgetsOldOnes copies a state that is uploaded in parts, one of which fails, and lets the
// copy remove what is too old.
func TestAnS3StoreTakesLargeObjectsAndForgetsOldOnes(t *testing.T) {
	s := startStore(t)
	archive := "s3://stele/large"
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := connect(t, c, false)
	for n := range 20 {
		_, err := client.Put(patiently(t), fmt.Sprint("large/", n), strings.Repeat(fmt.Sprint(n), 500_000))
		check(t, err)
	}
	s.failingParts.Store(1)
	b := startBackup(t, c, archive, "--base-interval=200ms", "--keep=400ms")
	b.says(t, "it is tried again")
	if s.parts.Load() < 2 {
		t.Errorf("%d parts were uploaded", s.parts.Load())
	}
	var bases map[string]bool
	count := func() int {
		now := 0
		for _, name := range s.objects(t) {
			if strings.Contains(name, "/base/") {
				now++
				bases[name] = true
			}
		}
		return now
	}
	bases = map[string]bool{}
	put := func() { check(t, cluster.PutUntilAnswered(patiently(t), client, "small", fmt.Sprint(len(bases)))) }
	until(t, "bases are taken and removed", func() bool {
		put()
		now := count()
		return len(bases) > now+1
	})
	b.ends(t, syscall.SIGINT)
	if code := startBackup(t, c, archive, "--once").ends(t, 0); code != 0 {
		t.Fatalf("backup --once: exit code %d", code)
	}
	sameAs(t, now(t, client), archive)

	s.isClosed.Store(true)
	closed := startBackup(t, c, archive, "--once")
	if code := closed.ends(t, 0); code != 1 || !strings.Contains(closed.out.String(), "InvalidAccessKeyId") {
		t.Errorf("with credentials that are refused: exit code %d: %s", code, closed.out)
	}
	refused(t, "InvalidAccessKeyId", archive)
	if r := stele(t, "utl", "backup", "verify", archive); r.code == 0 {
		t.Errorf("verify with credentials that are refused: %+v", r)
	}
}

// TestTheManual runs the commands of docs/operating/backup.md.
func TestTheManual(t *testing.T) {
	t.Parallel()
	c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath()})
	client := connect(t, c, false)
	use(t, client, 1)
	wanted := now(t, client)
	dir := t.TempDir()
	archive := "file://" + filepath.Join(dir, "archive")
	variables := []string{"ARCHIVE=" + archive, "ENDPOINTS=" + strings.Join(c.Endpoints(), ",")}
	follow(t, dir, "(umask 077 && head")
	key, err := os.Stat(filepath.Join(dir, "backup.key"))
	check(t, err)
	if key.Mode() != 0o600 || key.Size() != 64 {
		t.Errorf("the key: %v, %d bytes", key.Mode(), key.Size())
	}
	follow(t, dir, "stele ctl backup --once", variables...)
	before := now(t, client)
	use(t, client, 2)
	after := now(t, client)
	logs := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "archive", "log", "*"))
		check(t, err)
		return len(names)
	}
	during(t, command(t, dir, `stele ctl backup --endpoints`, variables...), "the changes are copied", func() bool { return logs() > 0 })
	follow(t, dir, "stele ctl backup --once", variables...)
	if out := follow(t, dir, "stele utl backup verify", variables...); !strings.Contains(out, "each state of these can be restored") {
		t.Errorf("verify: %s", out)
	}
	again := func(target, begin string) *clientv3.Client {
		c := cluster.ForTest(t, cluster.Config{Binary: cluster.StelePath(), Prepare: func(member *cluster.Member, initialCluster, token string) error {
			all := append(slices.Clone(variables), target, "NAME="+member.Name, "DATA_DIR="+member.DataDir, "CLUSTER="+initialCluster, "TOKEN="+token, "PEER_URL="+member.PeerURL)
			follow(t, dir, begin, all...)
			return nil
		}})
		return connect(t, c, false)
	}
	restore := `stele utl restore "$ARCHIVE" --encryption-key-file backup.key `
	toRevision := fmt.Sprint("REVISION=", after.revision)
	compare(t, "by revision", after.told, answers(t, again(toRevision, restore+"--to-revision")))
	compare(t, "by time", before.told, answers(t, again("TIME="+before.time.UTC().Format(time.RFC3339Nano), restore+"--to-time")))
	found, err := again(toRevision, "  --bump-revision").Get(patiently(t), "x")
	check(t, err)
	if found.Header.Revision != after.revision+1_000_000_000 {
		t.Errorf("revision %d, raised, is %d", after.revision, found.Header.Revision)
	}
	compare(t, "the state before", wanted.told, before.told)
	byMember := filepath.Join(dir, "of-a-member")
	flags := []string{"--data-dir=" + filepath.Join(dir, "member"), "--listen-client-urls=http://127.0.0.1:0", "--advertise-client-urls=http://127.0.0.1:1",
		"--listen-peer-urls=http://127.0.0.1:0"}
	server := command(t, dir, "stele server", "FLAGS="+strings.Join(flags, " "), "ARCHIVE=file://"+byMember)
	during(t, server, "a member copies its state", func() bool {
		bases, err := filepath.Glob(filepath.Join(byMember, "base", "*"))
		check(t, err)
		return len(bases) == 1
	})
}
