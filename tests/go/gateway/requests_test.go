package gateway

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// calls are requests for every route, in an order in which most of them succeed.
func calls() []request {
	return []request{
		{path: "/v3/kv/put", body: `{"key":"Zm9v","value":"YmFy"}`},
		{path: "/v3/kv/put", body: `{"key":"Zm9v","value":"YmF6","prev_kv":true}`},
		{path: "/v3/kv/put", body: `{"key":"-_8=","value":"-_8","prevKv":true}`},
		{path: "/v3/kv/range", body: `{"key":"Zm9v"}`},
		{path: "/v3beta/kv/range", body: `{"key":"Zm9v","serializable":true}`},
		{path: "/v3/kv/range", body: `{"key":"AA==","range_end":"AA==","limit":"1"}`},
		{path: "/v3/kv/range", body: `{"key":"AA==","rangeEnd":"AA==","sort_order":"DESCEND","sort_target":4,"keys_only":true}`},
		{path: "/v3/kv/range", body: `{"key":"AA==","range_end":"AA==","count_only":true,"unknown":{"a":[1,"}"]}}`},
		{path: "/v3/kv/range", body: `{"key":"Zm9v","sort_order":"NONE_OF_THEM","limit":null}` + " and more"},
		{path: "/v3/kv/txn", body: `{"compare":[{"target":"VERSION","key":"Zm9v","version":"2"}],
			"success":[{"request_put":{"key":"YQ==","value":"Yg=="}},{"requestRange":{"key":"YQ=="}}],
			"failure":[{"request_delete_range":{"key":"YQ=="}}]}`},
		{path: "/v3/kv/txn", body: `{"compare":[{"result":"GREATER","target":2,"key":"Zm9v","mod_revision":100}],
			"failure":[{"request_txn":{"success":[{"request_delete_range":{"key":"YQ==","prev_kv":true}}]}}]}`},
		{path: "/v3/kv/deleterange", body: `{"key":"+/8=","prev_kv":true}`},
		{path: "/v3/kv/compaction", body: `{"revision":"3","physical":true}`},
		{path: "/v3/kv/range", body: `{"key":"Zm9v","revision":2}`},
		{path: "/v3/watch", body: `{"create_request":{"key":"Zm9v","start_revision":"3"}}`, firstLine: true},
		{path: "/v3/lease/grant", body: `{"ID":"77","TTL":1000}`},
		{path: "/v3/lease/grant", body: `{"ID":78,"TTL":"1000"}`},
		{path: "/v3/lease/grant", body: `{"ID":"78","TTL":"1000"}`},
		{path: "/v3/lease/keepalive", body: `{"ID":"77"}`},
		{path: "/v3/lease/keepalive", body: `{"ID":"77"} {"ID":99}{"ID":"78"}`},
		{path: "/v3/lease/keepalive"},
		{path: "/v3/kv/put", body: `{"key":"bA==","lease":77}`},
		{path: "/v3/lease/timetolive", body: `{"ID":"77","keys":true}`},
		{path: "/v3/kv/lease/timetolive", body: `{"ID":"99"}`},
		{path: "/v3/lease/leases"},
		{path: "/v3/kv/lease/leases", body: `{}`},
		{path: "/v3/lock/lock", body: `{"name":"bG9jaw==","lease":"77"}`, remember: map[string]string{"key": "key"}},
		{path: "/v3/lock/lock", body: `{"name":"bG9jaw==","lease":"78"}`, headers: map[string]string{"Grpc-Timeout": "50m"}},
		{path: "/v3/lock/unlock", body: `{"key":"$key"}`},
		{path: "/v3/election/campaign", body: `{"name":"ZQ==","lease":"77","value":"dg=="}`,
			remember: map[string]string{"leaderkey": "leader.key", "leaderrev": "leader.rev"}},
		{path: "/v3/election/leader", body: `{"name":"ZQ=="}`},
		{path: "/v3/election/proclaim", body: `{"leader":{"name":"ZQ==","key":"$leaderkey","rev":"$leaderrev","lease":"77"},"value":"dw=="}`},
		{path: "/v3/election/observe", body: `{"name":"ZQ=="}`, firstLine: true},
		{path: "/v3/election/resign", body: `{"leader":{"name":"ZQ==","key":"$leaderkey","rev":"$leaderrev","lease":"77"}}`},
		{path: "/v3/election/leader", body: `{"name":"ZQ=="}`},
		{path: "/v3/lease/revoke", body: `{"ID":"77"}`},
		{path: "/v3/kv/lease/revoke", body: `{"ID":"78"}`},
		{path: "/v3/kv/lease/revoke", body: `{"ID":"78"}`},
		{path: "/v3/cluster/member/list"},
		{path: "/v3/cluster/member/add", body: `{"peerURLs":["http://127.0.0.1:1"],"isLearner":true}`,
			remember: map[string]string{"member": "member.ID"}},
		{path: "/v3/cluster/member/list", body: `{"linearizable":true}`},
		{path: "/v3/cluster/member/update", body: `{"ID":"$member","peerURLs":["http://127.0.0.1:2"]}`},
		{path: "/v3/cluster/member/promote", body: `{"ID":"$member"}`},
		{path: "/v3/cluster/member/remove", body: `{"ID":"$member"}`},
		{path: "/v3/cluster/member/remove", body: `{"ID":"$member"}`},
		{path: "/v3/maintenance/alarm", body: `{"action":"ACTIVATE","memberID":"0","alarm":"NOSPACE"}`},
		{path: "/v3/maintenance/alarm", body: `{"action":"GET"}`},
		{path: "/v3/kv/put", body: `{"key":"Zm9v"}`},
		{path: "/v3/maintenance/alarm", body: `{"action":2,"alarm":1}`},
		{path: "/v3/maintenance/status"},
		{path: "/v3/maintenance/defragment"},
		{path: "/v3/maintenance/hash"},
		{path: "/v3/maintenance/hashkv", body: `{"revision":"5"}`},
		{path: "/v3/maintenance/snapshot", firstLine: true},
		{path: "/v3/maintenance/transfer-leadership", body: `{"targetID":"1"}`},
		{path: "/v3/maintenance/downgrade", body: `{"action":"CANCEL"}`},
		{path: "/v3/auth/status"},
	}
}

// faults are requests that fail before they reach a method, or in it.
func faults() []request {
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded", "X-HTTP-Method-Override": "get"}
	large := func(bytes int) string {
		return `{"key":"YQ==","value":"` + base64.StdEncoding.EncodeToString(make([]byte, bytes)) + `"}`
	}
	return []request{
		{path: "/v3/kv/range"},
		{path: "/v3/kv/range", body: " \n"},
		{path: "/v3/kv/range", body: "bad"},
		{path: "/v3/kv/range", body: `{"key":`, anyText: true},
		{path: "/v3/kv/range", body: `{"key":"YQ==",}`, anyText: true},
		{path: "/v3/kv/range", body: "null", anyText: true},
		{path: "/v3/kv/range", body: `["YQ=="]`, anyText: true},
		{path: "/v3/kv/range", body: `{"key":5}`, anyText: true},
		{path: "/v3/kv/range", body: `{"key":"!"}`, anyText: true},
		{path: "/v3/kv/range", body: `{"limit":"x"}`, anyText: true},
		{path: "/v3/kv/range", body: `{"limit":1.5}`, anyText: true},
		{path: "/v3/kv/range", body: `{"keys_only":"true"}`, anyText: true},
		{path: "/v3/kv/range", body: `{"sort_order":[1]}`, anyText: true},
		{path: "/v3/kv/txn", body: `{"success":{"request_put":{}}}`, anyText: true},
		{path: "/v3/kv/txn", body: `{"success":[{"request_put":{"key":"YQ=="},"request_range":{"key":"YQ=="}}]}`, anyText: true},
		{path: "/v3/election/observe", body: "bad"},
		{path: "/v3/maintenance/snapshot", body: "bad"},
		{path: "/v3/kv/compaction", body: `{"revision":"1"}`},
		{path: "/v3/kv/compaction", body: `{"revision":"9999"}`},
		{path: "/v3/kv/put", body: large(1600 << 10)},
		{path: "/v3/kv/put", body: large(2500 << 10)},
		{path: "/v3/kv/put", body: large(6 << 20), anyText: true},
		{path: "/v3/kv/range", body: `{"key":"YQ=="}` + strings.Repeat(" ", 3<<20)},
		{path: "/v3/kv/range", body: `{"key":"YQ=="}`, headers: map[string]string{"Grpc-Timeout": "1x"}},
		{path: "/v3/kv/range", body: `{"key":"YQ=="}`, headers: map[string]string{"Grpc-Metadata-Hasleader": "true"}},
		{path: "/v3/kv/range", body: `{"key":"YQ=="}`, headers: form},
		{path: "/v3/kv/range", method: http.MethodGet},
		{path: "/v3/kv/range", method: http.MethodPut, body: `{}`},
		{path: "/v3/kv/range", method: http.MethodHead},
		{path: "/v3/kv/range", method: http.MethodOptions},
		{path: "/v3/watch", method: http.MethodGet},
		{path: "/v3/kv/range/", body: `{"key":"YQ=="}`},
		{path: "/v3/kv/rangestream", body: `{"key":"YQ=="}`},
		{path: "/v3/"},
		{path: "/v3/kv", method: http.MethodGet},
		{path: "/v3alpha/kv/range", body: `{"key":"YQ=="}`},
	}
}

// users are requests with which users come and go, are trusted and are not.
func users() []request {
	as := func(r request) request {
		r.headers = map[string]string{"Authorization": "$token"}
		return r
	}
	login := request{path: "/v3/auth/authenticate", body: `{"name":"root","password":"pw"}`}
	remembered := request{path: login.path, body: login.body, remember: map[string]string{"token": "token"}}
	requests := []request{
		{path: "/v3/auth/user/add", body: `{"name":"root","password":"pw"}`},
		{path: "/v3/auth/user/add", body: `{"name":"root","password":"pw"}`},
		{path: "/v3/auth/user/add", body: `{"name":"ann","options":{"no_password":true}}`},
		{path: "/v3/auth/user/changepw", body: `{"name":"ann","password":"other"}`},
		{path: "/v3/auth/role/add", body: `{"name":"root"}`},
		{path: "/v3/auth/role/add", body: `{"name":"reader"}`},
		{path: "/v3/auth/role/grant", body: `{"name":"reader","perm":{"permType":"READ","key":"YQ==","range_end":"Yg=="}}`},
		{path: "/v3/auth/role/get", body: `{"role":"reader"}`},
		{path: "/v3/auth/role/list"},
		{path: "/v3/auth/user/grant", body: `{"user":"root","role":"root"}`},
		{path: "/v3/auth/user/grant", body: `{"user":"ann","role":"reader"}`},
		{path: "/v3/auth/user/get", body: `{"name":"ann"}`},
		{path: "/v3/auth/user/list"},
		login,
		{path: "/v3/auth/enable"},
		{path: "/v3/auth/status"},
		{path: "/v3/auth/authenticate", body: `{"name":"root","password":"wrong"}`},
		remembered,
		{path: "/v3/kv/put", body: `{"key":"YQ=="}`},
		{path: "/v3/kv/put", body: `{"key":"YQ=="}`, headers: map[string]string{"Authorization": "wrong"}},
		{path: "/v3/kv/put", body: `{"key":"YQ=="}`, headers: map[string]string{"Authorization": "Bearer $token"}},
		{path: "/v3/kv/put", body: `{"key":"YQ=="}`, headers: map[string]string{"Grpc-Metadata-Token": "$token"}},
		{path: "/v3/maintenance/snapshot"},
		{path: "/v3/auth/user/list", headers: map[string]string{"Authorization": "wrong"}},
		as(request{path: "/v3/auth/user/list"}),
		as(request{path: "/v3/auth/role/revoke", body: `{"role":"reader","key":"YQ==","range_end":"Yg=="}`}),
		as(request{path: "/v3/auth/user/revoke", body: `{"name":"ann","role":"reader"}`}),
		as(request{path: "/v3/auth/role/delete", body: `{"role":"reader"}`}),
		as(request{path: "/v3/auth/user/delete", body: `{"name":"ann"}`}),
	}
	login.body = strings.ReplaceAll(login.body, "root", "ann")
	requests = append(requests, login)
	return append(requests, as(request{path: "/v3/auth/disable"}))
}
