package metrics

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"stele.test/cluster"
)

// step is an event and the families that it changes on some member.
type step struct {
	name     string
	do       func(ctx context.Context, r *rig) error
	families string
}

// rig is a cluster of three, and clients of each member.
type rig struct {
	*cluster.Cluster
	clients []*clientv3.Client
	// unread are streams that the server fills and no one reads; ending the context ends them.
	unread []grpc.ClientStream
	// lost is the member that was killed.
	lost int
}

// value is larger than the window of a client's stream, together with a few others.
var value = strings.Repeat("v", 256<<10)

const (
	// expired is the shortest lease that a member grants with its default election timeout, in seconds.
	expired = 1
	// large is how many values exceed what a hub keeps for a stream that does not read.
	large = 64
	// connections are opened to be counted.
	connections = 20
)

// steps are the events in one cluster. Each begins when the one before has shown its effect.
var steps = []step{
	{"requests", requests, `etcd_mvcc_put_total etcd_mvcc_range_total etcd_mvcc_delete_total etcd_mvcc_txn_total
		etcd_debugging_mvcc_keys_total etcd_debugging_mvcc_current_revision etcd_debugging_mvcc_total_put_size_in_bytes
		etcd_server_proposals_applied_total etcd_server_proposals_committed_total etcd_server_apply_duration_seconds
		etcd_server_range_duration_seconds etcd_server_request_duration_seconds etcd_server_slow_apply_total
		etcd_network_client_grpc_received_bytes_total etcd_network_client_grpc_sent_bytes_total
		etcd_server_client_requests_total grpc_server_started_total grpc_server_handled_total
		grpc_server_msg_received_total grpc_server_msg_sent_total etcd_disk_wal_fsync_duration_seconds
		etcd_disk_wal_write_duration_seconds etcd_disk_wal_write_bytes_total etcd_disk_backend_commit_duration_seconds
		etcd_mvcc_db_total_size_in_bytes etcd_mvcc_db_total_size_in_use_in_bytes etcd_network_peer_sent_bytes_total
		etcd_network_peer_received_bytes_total process_network_receive_bytes_total
		process_network_transmit_bytes_total stele_batch_commands stele_batch_bytes stele_group_commit_delay_seconds
		stele_apply_step_duration_seconds go_memstats_alloc_bytes go_memstats_heap_alloc_bytes
		stele_memory_accounted_bytes stele_relocation_debt_bytes`},
	{"time", func(context.Context, *rig) error { return nil }, `process_cpu_seconds_total
		etcd_network_peer_round_trip_time_seconds promhttp_metric_handler_requests_total`},
	{"leases", leases, `etcd_debugging_lease_granted_total etcd_debugging_lease_ttl_total
		etcd_debugging_lease_revoked_total etcd_debugging_lease_renewed_total
		etcd_debugging_server_lease_expired_total`},
	{"compaction", compaction, `etcd_debugging_mvcc_compact_revision etcd_debugging_mvcc_db_compaction_last
		etcd_debugging_mvcc_db_compaction_keys_total
		etcd_debugging_mvcc_db_compaction_total_duration_milliseconds stele_background_job_duration_seconds`},
	{"maintenance", maintenance, `etcd_mvcc_hash_duration_seconds etcd_mvcc_hash_rev_duration_seconds
		etcd_disk_backend_snapshot_duration_seconds etcd_disk_backend_defrag_duration_seconds
		etcd_debugging_auth_revision etcd_debugging_snap_save_total_duration_seconds`},
	{"watching", watching, `etcd_debugging_mvcc_watcher_total etcd_debugging_mvcc_watch_stream_total`},
	{"a client that does not read", unread, `etcd_debugging_mvcc_events_total etcd_debugging_mvcc_slow_watcher_total
		etcd_debugging_mvcc_pending_events_total etcd_mvcc_db_open_read_transactions process_resident_memory_bytes
		process_open_fds os_fd_used`},
	{"health", health, `etcd_server_health_success etcd_server_health_failures etcd_server_healthcheck
		etcd_server_healthchecks_total etcd_debugging_server_alarms`},
	{"another leader", anotherLeader, `etcd_server_is_leader etcd_server_leader_changes_seen_total`},
	{"a leader that stands still", freeze, `etcd_server_heartbeat_send_failures_total`},
	{"a learner", learner, `etcd_server_is_learner etcd_network_known_peers`},
	{"its promotion", promotion, `etcd_server_learner_promote_successes`},
	{"a lost member", lose, `etcd_network_active_peers etcd_network_disconnected_peers_total`},
	{"its return with old data", startAgain, `etcd_snap_db_save_total_duration_seconds`},
}

// quorumLost is what TestHealthOfAMinorityIsEtcds causes, in a cluster of its own: requests wait for seconds then.
var quorumLost = step{"no quorum", noQuorum, `etcd_server_has_leader etcd_server_proposals_failed_total
	etcd_server_proposals_pending etcd_server_slow_read_indexes_total etcd_server_read_indexes_failed_total`}

// exact are families whose value is known.
func exact(id uint64) map[string]string {
	return map[string]string{
		"etcd_cluster_version":                       `etcd_cluster_version{cluster_version="3.7"}`,
		"etcd_server_version":                        `etcd_server_version{server_version="3.7.3"}`,
		"etcd_server_id":                             fmt.Sprintf(`etcd_server_id{server_id="%x"}`, id),
		"etcd_server_feature_enabled":                `etcd_server_feature_enabled{name="CompactHashCheck",stage="ALPHA"}`,
		"promhttp_metric_handler_requests_in_flight": "promhttp_metric_handler_requests_in_flight",
	}
}

// known are families with a number that depends on the machine: it must be above 0, or -1 for what has no limit.
const known = `process_max_fds os_fd_limit process_start_time_seconds process_virtual_memory_bytes
	process_virtual_memory_max_bytes go_threads go_goroutines go_sched_gomaxprocs_threads
	etcd_server_quota_backend_bytes`

// elsewhere are families that last too short to be met from outside, and the Rust test that has them.
var elsewhere = map[string]string{
	"etcd_server_snapshot_apply_in_progress_total": "crates/member/tests/cluster: a_snapshot_whose_commit_finds_no_space_is_committed_when_there_is",
}

// ownElsewhere are families of Stele that tests of other packages change, and the files of those tests.
var ownElsewhere = map[string]string{
	"stele_backup_bases_total":        "tests/go/backup/s3_test.go",
	"stele_backup_bytes_total":        "tests/go/backup/s3_test.go",
	"stele_backup_failures_total":     "tests/go/backup/s3_test.go",
	"stele_backup_lag_seconds":        "tests/go/backup/s3_test.go",
	"stele_backup_log_objects_total":  "tests/go/backup/s3_test.go",
	"stele_backup_revision":           "tests/go/backup/s3_test.go",
	"stele_damage_found_total":        "tests/go/corruption/damage_test.go",
	"stele_damage_repaired_total":     "tests/go/corruption/damage_test.go",
	"stele_log_lines_dropped_total":   "tests/go/operating/logs_test.go",
	"stele_memory_limit_bytes":        "tests/go/client/memory_test.go",
	"stele_peer_queued_bytes":         "tests/go/overload/followers_test.go",
	"stele_queue_length":              "tests/go/overload/disk_test.go",
	"stele_queue_wait_seconds":        "tests/go/overload/disk_test.go",
	"stele_refused_connections_total": "tests/go/client/descriptors_test.go",
	"stele_refused_requests_total":    "tests/go/overload/reads_test.go",
	"stele_repairs_pending":           "tests/go/corruption/repairs_pending_test.go",
	// A round takes hours; the tests of crate member have it under a clock of their own.
	"stele_scrub_rounds":          "crates/server/src/metrics/tests.rs",
	"stele_scrubbed_bytes":        "crates/server/src/metrics/tests.rs",
	"stele_spans_dropped_total":   "tests/go/tracing/tracing_test.go",
	"stele_spans_exported_total":  "tests/go/tracing/tracing_test.go",
	"stele_version":               "crates/server/src/metrics/tests.rs",
	"stele_write_pending_seconds": "tests/go/metrics/disk_test.go",
}

func requests(ctx context.Context, r *rig) error {
	for n := range 50 {
		if _, err := r.clients[n%3].Put(ctx, fmt.Sprint("k", n), strings.Repeat("v", 100)); err != nil {
			return err
		}
	}
	for _, client := range r.clients {
		if _, err := client.Get(ctx, "k1"); err != nil {
			return err
		}
		if _, err := client.Txn(ctx).Then(clientv3.OpPut("t", "1"), clientv3.OpPut("u", "1"), clientv3.OpGet("t")).Commit(); err != nil {
			return err
		}
	}
	_, err := r.clients[0].Delete(ctx, "k1")
	return err
}

func leases(ctx context.Context, r *rig) error {
	if _, err := r.clients[0].Grant(ctx, expired); err != nil {
		return err
	}
	lease, err := r.clients[1].Grant(ctx, 600)
	if err != nil {
		return err
	}
	if _, err := r.clients[1].KeepAliveOnce(ctx, lease.ID); err != nil {
		return err
	}
	_, err = r.clients[1].Revoke(ctx, lease.ID)
	return err
}

func compaction(ctx context.Context, r *rig) error {
	put, err := r.clients[0].Put(ctx, "k2", "w")
	if err != nil {
		return err
	}
	_, err = r.clients[0].Compact(ctx, put.Header.Revision, clientv3.WithCompactPhysical())
	return err
}

func maintenance(ctx context.Context, r *rig) error {
	client := r.clients[0]
	if _, err := client.HashKV(ctx, r.Members[0].ClientURL, 0); err != nil {
		return err
	}
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Hash(ctx, &pb.HashRequest{}); err != nil {
		return err
	}
	if _, err := client.Defragment(ctx, r.Members[0].ClientURL); err != nil {
		return err
	}
	if _, err := client.RoleAdd(ctx, "someone"); err != nil {
		return err
	}
	backup, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer backup.Close()
	_, err = new(bytes.Buffer).ReadFrom(backup)
	return err
}

func watching(ctx context.Context, r *rig) error { return r.watch(ctx, 0) }

// watch opens a stream with one watcher from a revision on, which no one reads from.
func (r *rig) watch(ctx context.Context, revision int64) error {
	stream, err := pb.NewWatchClient(r.clients[0].ActiveConnection()).Watch(ctx)
	if err != nil {
		return err
	}
	r.unread = append(r.unread, stream)
	create := &pb.WatchCreateRequest{Key: []byte("big"), RangeEnd: []byte("bih"), StartRevision: revision}
	return stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
}

// unread writes more than the stream's window and the hub's buffers hold, begins a watch of the past and a range that
// are not read either, and opens connections.
func unread(ctx context.Context, r *rig) error {
	var last int64
	for n := range large {
		put, err := r.clients[1].Put(ctx, fmt.Sprint("big", n), value)
		if err != nil {
			return err
		}
		last = put.Header.Revision
	}
	if err := r.watch(ctx, last-large+1); err != nil {
		return err
	}
	for range connections {
		connection, err := net.Dial("tcp", strings.TrimPrefix(r.Members[0].ClientURL, "http://"))
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { connection.Close() })
	}
	other, err := clientv3.New(clientConfig(r.Members[0]))
	if err != nil {
		return err
	}
	r.clients = append(r.clients, other)
	request := &pb.RangeRequest{Key: []byte("big"), RangeEnd: []byte("bih")}
	stream, err := pb.NewKVClient(other.ActiveConnection()).RangeStream(ctx, request)
	r.unread = append(r.unread, stream)
	return err
}

// health asks before an alarm, with it, and without it again.
func health(ctx context.Context, r *rig) error {
	client := pb.NewMaintenanceClient(r.clients[0].ActiveConnection())
	for _, action := range []pb.AlarmRequest_AlarmAction{pb.AlarmRequest_GET, pb.AlarmRequest_ACTIVATE} {
		request := &pb.AlarmRequest{Action: action, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}
		if _, err := client.Alarm(ctx, request); err != nil {
			return err
		}
		for _, path := range []string{"/health", "/livez", "/readyz"} {
			if _, _, err := get(ctx, r.Members[0], path); err != nil {
				return err
			}
		}
	}
	return nil
}

// leader is the index of the member that leads, once all that run agree.
func (r *rig) leader(ctx context.Context) (int, error) {
	for {
		for at, m := range r.Members {
			if !m.Running() {
				continue
			}
			s, err := scrapeOf(ctx, m)
			if err == nil && s.values["etcd_server_is_leader"] == 1 {
				return at, nil
			}
		}
		if err := pause(ctx); err != nil {
			return 0, fmt.Errorf("no member leads: %w", err)
		}
	}
}

func (r *rig) memberID(ctx context.Context, at int) (uint64, error) {
	status, err := r.clients[at].Status(ctx, r.Members[at].ClientURL)
	if err != nil {
		return 0, err
	}
	return status.Header.MemberId, nil
}

func anotherLeader(ctx context.Context, r *rig) error {
	request := &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 1, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(r.clients[0].ActiveConnection()).Alarm(ctx, request); err != nil {
		return err
	}
	leads, err := r.leader(ctx)
	if err != nil {
		return err
	}
	id, err := r.memberID(ctx, (leads+1)%3)
	if err != nil {
		return err
	}
	_, err = r.clients[leads].MoveLeader(ctx, id)
	return err
}

// freeze stops the leader for three ticks, and not long enough to lose the leadership.
func freeze(ctx context.Context, r *rig) error {
	leads, err := r.leader(ctx)
	if err != nil {
		return err
	}
	if err := r.Members[leads].Freeze(); err != nil {
		return err
	}
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
	}
	return r.Members[leads].Thaw()
}

func learner(ctx context.Context, r *rig) error {
	m, err := r.Layout(*bin)
	if err != nil {
		return err
	}
	if _, err := r.clients[0].MemberAddAsLearner(ctx, []string{m.PeerURL}); err != nil {
		return err
	}
	urls := map[string]string{}
	for _, member := range r.Members {
		urls[member.Name] = member.PeerURL
	}
	m.JoinExisting(urls)
	return m.Start()
}

// promotion is refused until the learner has caught up.
func promotion(ctx context.Context, r *rig) error {
	members, err := r.clients[0].MemberList(ctx)
	if err != nil {
		return err
	}
	leads, err := r.leader(ctx)
	if err != nil {
		return err
	}
	for _, member := range members.Members {
		for member.IsLearner {
			if _, err = r.clients[leads].MemberPromote(ctx, member.ID); err == nil {
				break
			}
			if paused := pause(ctx); paused != nil {
				return fmt.Errorf("%w: %w", paused, err)
			}
		}
	}
	return nil
}

// lose kills a follower.
func lose(ctx context.Context, r *rig) error {
	leads, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.lost = (leads + 1) % 3
	r.Members[r.lost].Kill()
	return nil
}

// startAgain writes more than the others keep for the lost member, and starts it again.
func startAgain(ctx context.Context, r *rig) error {
	for range 60 {
		if _, err := r.clients[(r.lost+1)%3].Put(ctx, "k3", "v"); err != nil {
			return err
		}
	}
	return r.Members[r.lost].Restart(ctx)
}

// noQuorum kills the followers and asks the leader, which gives up the read's round with its leadership.
func noQuorum(ctx context.Context, r *rig) error {
	leads, err := r.leader(ctx)
	if err != nil {
		return err
	}
	for at, m := range r.Members {
		if at != leads {
			m.Kill()
		}
	}
	go r.clients[leads].Get(ctx, "k3")
	go r.clients[leads].Put(ctx, "k3", "v")
	return nil
}
