package auth

import (
	"encoding/base64"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

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

// TestAPasswordThatIsCheckedHoldsNoOtherCallUp has a member check a password for minutes, and puts behind it on the same connection.
func TestAPasswordThatIsCheckedHoldsNoOtherCallUp(t *testing.T) {
	s := enabled(t, 1)[0]
	costly := base64.StdEncoding.EncodeToString([]byte(strings.Replace(ofGiven, "$04$", "$20$", 1)))
	change := &pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: costly}
	must[*pb.AuthUserChangePasswordResponse](t)(s.auth().UserChangePassword(s.as("root"), change))
	s.run(login("root", "the password of root"))
	ctx, cancel := s.cancelable("")
	defer cancel()
	// A stream sends its request before it returns, so the puts come after it.
	check := must[grpc.ClientStream](t)(s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.Auth_Authenticate_FullMethodName))
	if err := check.SendMsg(&pb.AuthenticateRequest{Name: "ann", Password: "given"}); err != nil {
		t.Fatal(err)
	}
	if err := check.CloseSend(); err != nil {
		t.Fatal(err)
	}
	checked := make(chan error, 1)
	go func() { checked <- check.RecvMsg(&pb.AuthenticateResponse{}) }()
	for range 100 {
		s.run(put("root", "a"))
	}
	select {
	case err := <-checked:
		t.Errorf("the password was checked before the puts were answered: %v", err)
	default:
	}
}
