package auth

import (
	"encoding/base64"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"stele.test/cluster"
)

// ofGiven is a hash of the password "given" with the least cost.
const ofGiven = "$2a$04$abcdefghijklmnopqrstuu4uNgKlWVo1Kc1RgIgpeS9UpW09vOTtK"

// TestAHashOfTheClientMustBeOneThatCanBeChecked changes a password by its hash alone: by one of bcrypt whose check
// members bear, or by none, after which no password is right.
func TestAHashOfTheClientMustBeOneThatCanBeChecked(t *testing.T) {
	s := connected(t, cluster.ForTest(t, cluster.Config{Binary: *bin, Args: []string{"--bcrypt-cost=4"}}))
	s.run(userAdd("", "root", "r"), roleAdd("", "root"), grant("", "root", "root"), userAdd("", "ann", "a"))
	client := pb.NewAuthClient(s.dialFrom("127.0.0.1"))
	change := func(hash string) error {
		encoded := base64.StdEncoding.EncodeToString([]byte(hash))
		_, err := client.UserChangePassword(t.Context(), &pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: encoded})
		return err
	}
	costly := func(cost string) string { return strings.Replace(ofGiven, "$04$", "$"+cost+"$", 1) }
	for _, bad := range []string{"given", ofGiven[1:], ofGiven + "x", costly("21"), costly("99")} {
		if err := change(bad); err == nil {
			t.Errorf("%q is taken for a hash", bad)
		}
	}
	for _, good := range []string{costly("20"), ofGiven} {
		if err := change(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	s.run(enable(""), login("root", "r"))
	authenticates := func(password string) bool {
		_, err := client.Authenticate(t.Context(), &pb.AuthenticateRequest{Name: "ann", Password: password})
		return err == nil
	}
	if authenticates("a") || !authenticates("given") {
		t.Error("the password is not that of the hash")
	}
	s.run(disable("root"))
	if err := change(""); err != nil {
		t.Error(err)
	}
	s.run(enable(""))
	if authenticates("") || authenticates("given") {
		t.Error("a password is right, though there is none")
	}
}
