package gateway

import (
	"encoding/json"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"stele.test/manual"
)

// curl is a command line as in etcd's guide to its gateway: path, body and further words.
type curl struct {
	path, body string
	more       []string
}

// guided are the requests of etcd's guide: plain curl, which says that a body is a form, with the names of fields in
// either spelling.
var guided = []curl{
	{"/v3/kv/put", `{"key": "Zm9v", "value": "YmFy"}`, nil},
	{"/v3/kv/range", `{"key": "Zm9v"}`, nil},
	{"/v3/kv/range", `{"key": "Zm9v", "range_end": "Zm9w"}`, nil},
	{"/v3/kv/txn", `{"compare":[{"target":"CREATE","key":"Zm9v","createRevision":"2"}],` +
		`"success":[{"requestPut":{"key":"Zm9v","value":"YmFy"}}]}`, nil},
	{"/v3/kv/txn", `{"compare":[{"version":"4","result":"EQUAL","target":"VERSION","key":"Zm9v"}],` +
		`"success":[{"requestRange":{"key":"Zm9v"}}]}`, nil},
	{"/v3/kv/txn", `{"compare":[{"result":1,"target":3,"key":"Zm9v","value":"YQ=="}],"failure":[{"request_range":{"key":"Zm9v"}}]}`, nil},
	{"/v3/kv/range", `{"key": "Zm9v"}`, []string{"-H", "Content-Type: application/json"}},
	{"/v3/kv/range", `{"key": `, nil},
	{"/v3/auth/user/add", `{"name": "root", "password": "pass"}`, nil},
	{"/v3/auth/role/add", `{"name": "root"}`, nil},
	{"/v3/auth/user/grant", `{"user": "root", "role": "root"}`, nil},
	{"/v3/auth/enable", `{}`, nil},
	{"/v3/auth/authenticate", `{"name": "root", "password": "pass"}`, nil},
	{"/v3/kv/put", `{"key": "Zm9v", "value": "YmFy"}`, nil},
	{"/v3/kv/put", `{"key": "Zm9v", "value": "YmFy"}`, []string{"-H", "Authorization: TOKEN"}},
}

func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl")
	}
}

// TestCurlIsAnsweredAsByEtcd runs the lines of etcd's guide against both.
func TestCurlIsAnsweredAsByEtcd(t *testing.T) {
	t.Parallel()
	needCurl(t)
	sides := both(t)
	for _, c := range guided {
		var answers []any
		for _, s := range sides {
			words := append([]string{"-sS", "-L", s.url + c.path, "-X", "POST", "-d", c.body}, c.more...)
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "TOKEN", s.known["token"])
			}
			out, err := exec.CommandContext(t.Context(), "curl", words...).CombinedOutput()
			if err != nil {
				t.Fatalf("curl %q: %v: %s", words, err, out)
			}
			var answer any
			if err := json.Unmarshal(out, &answer); err != nil {
				t.Fatalf("curl %q: %v: %s", words, err, out)
			}
			if token, isThere := answer.(map[string]any)["token"].(string); isThere {
				s.known["token"] = token
			}
			answers = append(answers, canonical(answer))
		}
		if !reflect.DeepEqual(answers[0], answers[1]) {
			t.Errorf("%s %s\n etcd: %v\nstele: %v", c.path, c.body, answers[0], answers[1])
		}
	}
}

// TestTheExamplesOfTheManualAreTrue runs those of docs/operating/gateway.md that end, and compares what they print.
func TestTheExamplesOfTheManualAreTrue(t *testing.T) {
	t.Parallel()
	needCurl(t)
	s := start(t, *bin)
	page, err := manual.Open("gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	block, err := page.Block("$ curl -s localhost:2379/v3/kv/put")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for example := range strings.SplitSeq(strings.TrimPrefix(block, "$ "), "\n$ ") {
		// Continued lines are indented; what follows is printed.
		lines := strings.Split(strings.TrimSpace(example), "\n")
		command := lines[0]
		for lines = lines[1:]; len(lines) > 0 && strings.HasPrefix(lines[0], "    "); lines = lines[1:] {
			command += "\n" + lines[0]
		}
		command = strings.ReplaceAll(command, "localhost:2379", strings.TrimPrefix(s.url, "http://"))
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		printed := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(lines, "\n")), "…", ".*")
		if !regexp.MustCompile(`^` + printed).Match(out) {
			t.Errorf("%s\nprints %s\nand not %s", command, out, strings.Join(lines, "\n"))
		}
		if strings.Contains(string(out), `"error"`) {
			t.Errorf("%s\nfails: %s", command, out)
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("%d examples were run", ran)
	}
}
