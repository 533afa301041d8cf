"""gRPC's interoperability cases, put to etcd's API with Python's gRPC library, and the `etcd3` package with a list of
addresses. Arguments: addresses of one cluster, host:port each. Messages are encoded by hand: there are few."""

import sys
import time

import etcd3
import grpc


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def unary(channel, path, request=b"", **options):
    return channel.unary_unary(path)(request, timeout=30, **options)


def expect(codes, call, text=None):
    try:
        call()
    except grpc.RpcError as error:
        if error.code() in codes and text in (None, error.details()):
            return
        raise
    raise AssertionError(f"no error, expected {codes}")


def empty_unary(channel):
    unary(channel, "/etcdserverpb.Maintenance/Status")


def put_and_get(channel, key, **options):
    value = b"v" * (1 << 20)
    unary(channel, "/etcdserverpb.KV/Put", field(1, key) + field(2, value), **options)
    assert value in unary(channel, "/etcdserverpb.KV/Range", field(1, key), **options)


def large_unary(channel):
    put_and_get(channel, b"large")


def client_compressed_unary(channel):
    put_and_get(channel, b"compressed", compression=grpc.Compression.Gzip)


def server_streaming(channel):
    keys = 8
    for i in range(keys):
        unary(channel, "/etcdserverpb.KV/Put", field(1, b"stream/%d" % i) + field(2, bytes(400_000)))
    request = field(1, b"stream/") + field(2, b"stream0")
    answers = channel.unary_stream("/etcdserverpb.KV/RangeStream")(request, timeout=30)
    assert b"".join(answers).count(b"stream/") == keys


def ping_pong(channel):
    ask = iter([field(1, i) for i in range(1, 101)])
    answers = channel.stream_stream("/etcdserverpb.Lease/LeaseKeepAlive")(ask, timeout=30)
    assert len(list(answers)) == 100


def empty_stream(channel):
    assert not list(channel.stream_stream("/etcdserverpb.Lease/LeaseKeepAlive")(iter([]), timeout=30))


def endless():
    yield field(1, field(1, b"watched"))
    time.sleep(30)


def cancel_after_begin(channel):
    call = channel.stream_stream("/etcdserverpb.Watch/Watch")(iter([]), timeout=30)
    call.cancel()
    expect([grpc.StatusCode.CANCELLED], lambda: next(call))


def cancel_after_first_response(channel):
    call = channel.stream_stream("/etcdserverpb.Watch/Watch")(endless(), timeout=30)
    next(call)
    call.cancel()
    expect([grpc.StatusCode.CANCELLED], lambda: next(call))


def timeout_on_sleeping_server(channel):
    call = channel.stream_stream("/etcdserverpb.Watch/Watch")(iter([]), timeout=0.001)
    # At the deadline the server resets the call, and may be faster than the client.
    expect([grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED], lambda: next(call))


def custom_metadata(channel):
    unary(channel, "/etcdserverpb.Maintenance/Status", metadata=[
        ("x-grpc-test-echo-initial", "value"), ("x-grpc-test-echo-trailing-bin", b"\x0a\x0b"), ("x-long", "l" * 6000)])


def status_code_and_message(channel):
    expect([grpc.StatusCode.INVALID_ARGUMENT], lambda: unary(channel, "/etcdserverpb.KV/Put"),
           "etcdserver: key is not provided")


def unimplemented(channel):
    expect([grpc.StatusCode.UNIMPLEMENTED], lambda: unary(channel, "/etcdserverpb.KV/UnimplementedCall"),
           "unknown method UnimplementedCall for service etcdserverpb.KV")
    expect([grpc.StatusCode.UNIMPLEMENTED], lambda: unary(channel, "/grpc.testing.Unimplemented/Call"),
           "unknown service grpc.testing.Unimplemented")


def many_calls_at_once(channel):
    put = channel.unary_unary("/etcdserverpb.KV/Put")
    for call in [put.future(field(1, b"many/%d" % i) + field(2, bytes(100)), timeout=30) for i in range(500)]:
        call.result()


CASES = [empty_unary, large_unary, client_compressed_unary, server_streaming, ping_pong, empty_stream, cancel_after_begin,
         cancel_after_first_response, timeout_on_sleeping_server, custom_metadata, status_code_and_message, unimplemented,
         many_calls_at_once]


def etcd3_with_a_list(addresses):
    """The library joins host and port with a colon, so a list of addresses can be given as the host."""
    host, _, port = ("ipv4:" + ",".join(addresses)).rpartition(":")
    client = etcd3.client(host=host, port=int(port))
    client.put("etcd3/key", "value")
    assert client.get("etcd3/key")[0] == b"value"
    events, cancel = client.watch("etcd3/key")
    client.put("etcd3/key", "another")
    assert next(events).value == b"another"
    cancel()
    lease = client.lease(30)
    client.put("etcd3/leased", "value", lease)
    lease.refresh()
    lease.revoke()
    assert client.get("etcd3/leased")[0] is None
    assert client.transaction(compare=[client.transactions.version("etcd3/key") > 0],
                              success=[client.transactions.delete("etcd3/key")], failure=[])[0]
    with client.lock("etcd3/lock", ttl=10):
        pass
    client.close()


def main():
    addresses = sys.argv[1:]
    for target in [addresses[0], "ipv4:" + ",".join(addresses)]:
        with grpc.insecure_channel(target) as channel:
            for case in CASES:
                case(channel)
                empty_unary(channel)
                print("ok:", case.__name__, "at", target)
    etcd3_with_a_list(addresses)
    print("ok: etcd3")


if __name__ == "__main__":
    main()
