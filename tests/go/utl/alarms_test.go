package utl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"stele.test/cluster"
)

// unhealthy starts a member of data that restore makes. It is not waited for: with an alarm it never says that it is
// healthy.
func unhealthy(t *testing.T, binary string, restore func(m *cluster.Member, initialCluster, token string)) (*cluster.Member, *clientv3.Client) {
	t.Helper()
	var initial, name string
	c := cluster.ForTest(t, cluster.Config{Binary: binary, Prepare: func(_ *cluster.Member, initialCluster, token string) error {
		initial, name = initialCluster, token
		return nil
	}})
	m := c.Members[0]
	stop(m)
	check(t, os.RemoveAll(m.DataDir))
	restore(m, initial, name)
	check(t, m.Start())
	return m, connect(t, c, "")
}

// alarms waits for an answer, and returns the alarms that are raised.
func alarms(t *testing.T, client *clientv3.Client) []string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		answer, err := client.AlarmList(patiently(t))
		if err == nil {
			var all []string
			for _, alarm := range answer.Alarms {
				all = append(all, fmt.Sprintf("%v of %x", alarm.Alarm, alarm.MemberID))
			}
			slices.Sort(all)
			return all
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestAlarmsGoToSteleAndBack raises alarms in an etcd: they are in what is restored and imported into Stele, and in what
// that exports to etcd.
func TestAlarmsGoToSteleAndBack(t *testing.T) {
	t.Parallel()
	source := cluster.ForTest(t, cluster.Config{Binary: cluster.EtcdPath()})
	client := connect(t, source, "")
	_, err := client.Put(patiently(t), "key", "x")
	check(t, err)
	g := newGuide(t)
	for _, kind := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
		request := pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: 0xabc, Alarm: kind}
		_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(patiently(t), &request)
		check(t, err)
	}
	want := alarms(t, client)
	if len(want) != 2 {
		t.Fatalf("etcd has the alarms %q", want)
	}
	snapshot := filepath.Join(g.dir, "snapshot.db")
	if r := run(t, cluster.EtcdTool("etcdctl"), "--endpoints="+source.Endpoints()[0], "snapshot", "save", snapshot); r.code != 0 {
		t.Fatalf("snapshot save: %+v", r)
	}
	stop(source.Members[0])
	same := func(what string, client *clientv3.Client) {
		t.Helper()
		if got := alarms(t, client); !slices.Equal(got, want) {
			t.Errorf("%s has the alarms %q instead of %q", what, got, want)
		}
		if _, err := client.Put(patiently(t), "after", "x"); !errors.Is(err, rpctypes.ErrCorrupt) && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("%s answers a put with %v", what, err)
		}
	}
	_, restored := unhealthy(t, cluster.StelePath(), func(m *cluster.Member, initialCluster, token string) {
		g.follow(t, "stele utl snapshot restore snapshot.db --name", variables(m, initialCluster, token)...)
	})
	same("a restored member", restored)
	imported, client := unhealthy(t, cluster.StelePath(), func(m *cluster.Member, initialCluster, token string) {
		g.follow(t, "stele utl import $ETCD_DIR --initial-cluster", append(variables(m, initialCluster, token), "ETCD_DIR="+source.Members[0].DataDir)...)
	})
	same("an imported member", client)
	stop(imported)
	_, back := unhealthy(t, cluster.EtcdPath(), func(m *cluster.Member, initialCluster, token string) {
		g.follow(t, "stele utl export export.db", append(variables(m, initialCluster, token), "STELE_DIR="+imported.DataDir)...)
	})
	same("etcd again", back)
}
