package main

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// TestDowngradesAreAnsweredAlike compares answers and errors of all actions. What follows from an enabled downgrade
// comes at different times in the two systems; tests/go/etcdctl waits for it and compares it.
func TestDowngradesAreAnsweredAlike(t *testing.T) {
	j, err := newJudge(t.Context(), systems{reference: cluster.EtcdPath(), tested: *bin})
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	downgrade := func(action pb.DowngradeRequest_DowngradeAction, version string) op {
		return unary(&pb.DowngradeRequest{Action: action, Version: version})
	}
	var ops []op
	for _, version := range []string{
		"3.6", "3.6.0", "3.6.5", "3.7", "3.5", "3.8", "2.6", "4.6", "", "3", "3.", "v3.6", "x", "3.6.0-rc.1", "3.6.1+build",
		"3.6-rc", " 3.6", "3.6.0.0", "03.06", "3.-6", "99999999999999999999.6",
	} {
		ops = append(ops, downgrade(pb.DowngradeRequest_VALIDATE, version))
	}
	ops = append(ops,
		downgrade(pb.DowngradeRequest_ENABLE, "3.5"),
		downgrade(pb.DowngradeRequest_ENABLE, "x"),
		downgrade(pb.DowngradeRequest_CANCEL, ""),
		downgrade(17, "3.6"),
		unary(&pb.StatusRequest{}),
	)
	for _, o := range ops {
		if d := j.compare(t.Context(), o); d != nil {
			t.Error(d)
		}
	}
}
