"""TLS, client certificates and tokens, with Python's gRPC library and the `etcd3` package. Arguments: an address, and the
folder with the certificates of alice, who may use /app/, and of stranger, who is no user."""

import pathlib
import sys

import etcd3
import grpc

from interop import expect, field, unary

PUT = "/etcdserverpb.KV/Put"
DENIED = "etcdserver: permission denied"
Code = grpc.StatusCode


def put(key):
    return field(1, key) + field(2, b"value")


def token_in(answer):
    """The second field, behind the header."""
    begin = 2 + answer[1]
    return answer[begin + 2:begin + 2 + answer[begin + 1]].decode()


def main():
    address, folder = sys.argv[1], pathlib.Path(sys.argv[2])

    def channel(name, authority="ca.pem"):
        shown = [(folder / name).with_suffix(end).read_bytes() for end in (".pk8", ".pem")] if name else [None, None]
        return grpc.secure_channel(address, grpc.ssl_channel_credentials((folder / authority).read_bytes(), *shown))

    with channel("alice") as alice:
        unary(alice, PUT, put(b"/app/python"))
        expect([Code.PERMISSION_DENIED], lambda: unary(alice, PUT, put(b"/other")), DENIED)
    with channel("stranger") as stranger:
        def authenticate(password):
            return unary(stranger, "/etcdserverpb.Auth/Authenticate", field(1, b"alice") + field(2, password))

        token = [("token", token_in(authenticate(b"of alice")))]
        unary(stranger, PUT, put(b"/app/python"), metadata=token)
        expect([Code.PERMISSION_DENIED], lambda: unary(stranger, PUT, put(b"/other"), metadata=token), DENIED)
        expect([Code.UNAUTHENTICATED], lambda: unary(stranger, PUT, put(b"/app/python"), metadata=[("token", "x.1")]),
               "etcdserver: invalid auth token")
        expect([Code.INVALID_ARGUMENT], lambda: authenticate(b"wrong"),
               "etcdserver: authentication failed, invalid user ID or password")
    for name, authority in [(None, "ca.pem"), ("alice", "foreign.pem"), ("revoked", "ca.pem")]:
        with channel(name, authority) as refused:
            expect([Code.UNAVAILABLE], lambda: unary(refused, PUT, put(b"/app/python")))
    host, port = address.rsplit(":", 1)
    files = {"ca_cert": "ca.pem", "cert_cert": "stranger.pem", "cert_key": "stranger.pk8"}
    client = etcd3.client(host=host, port=int(port), user="alice", password="of alice",
                          **{option: str(folder / name) for option, name in files.items()})
    client.put("/app/etcd3", "value")
    assert client.get("/app/etcd3")[0] == b"value"
    client.close()
    print("ok: secure")


main()
