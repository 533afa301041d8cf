import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * gRPC's interoperability cases, put to etcd's API with gRPC's Java library. Argument: an address, host:port. Messages
 * are encoded by hand: there are few.
 */
public final class Interop {
  private static final byte[] NONE = {};
  private final ManagedChannel channel;

  private Interop(ManagedChannel channel) {
    this.channel = channel;
  }

  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  static MethodDescriptor<byte[], byte[]> method(String path, MethodType type) {
    return MethodDescriptor.newBuilder(new Bytes(), new Bytes()).setFullMethodName(path).setType(type).build();
  }

  private static void varint(ByteArrayOutputStream out, int number) {
    for (; number >= 128; number >>>= 7) {
      out.write(number & 127 | 128);
    }
    out.write(number);
  }

  static byte[] field(int number, byte[] content) {
    var out = new ByteArrayOutputStream();
    varint(out, number << 3 | 2);
    varint(out, content.length);
    out.writeBytes(content);
    return out.toByteArray();
  }

  static byte[] field(int number, String content) {
    return field(number, content.getBytes(StandardCharsets.UTF_8));
  }

  private static byte[] number(int field, int value) {
    var out = new ByteArrayOutputStream();
    varint(out, field << 3);
    varint(out, value);
    return out.toByteArray();
  }

  static byte[] join(byte[] first, byte[] second) {
    var out = new ByteArrayOutputStream();
    out.writeBytes(first);
    out.writeBytes(second);
    return out.toByteArray();
  }

  private static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static CallOptions soon() {
    return CallOptions.DEFAULT.withDeadlineAfter(30, TimeUnit.SECONDS);
  }

  private byte[] unary(String path, byte[] request, CallOptions options) {
    return ClientCalls.blockingUnaryCall(channel, method(path, MethodType.UNARY), options, request);
  }

  private void emptyUnary() {
    unary("etcdserverpb.Maintenance/Status", NONE, soon());
  }

  private void largeUnary(CallOptions options) {
    byte[] value = new byte[1 << 20];
    unary("etcdserverpb.KV/Put", join(field(1, "large"), field(2, value)), options);
    int length = unary("etcdserverpb.KV/Range", field(1, "large"), options).length;
    check(length > value.length, length);
  }

  private void serverStreaming() {
    for (int i = 0; i < 8; i++) {
      unary("etcdserverpb.KV/Put", join(field(1, "stream/" + i), field(2, new byte[400_000])), soon());
    }
    Iterator<byte[]> answers = ClientCalls.blockingServerStreamingCall(channel,
        method("etcdserverpb.KV/RangeStream", MethodType.SERVER_STREAMING), soon(), join(field(1, "stream/"), field(2, "stream0")));
    int length = 0;
    while (answers.hasNext()) {
      length += answers.next().length;
    }
    check(length > 8 * 400_000, length);
  }

  /** What comes on a stream: messages, then its status. */
  private static final class Answers implements ClientResponseObserver<byte[], byte[]> {
    final BlockingQueue<Object> queue = new LinkedBlockingQueue<>();
    ClientCallStreamObserver<byte[]> call;

    @Override
    public void beforeStart(ClientCallStreamObserver<byte[]> call) {
      this.call = call;
    }

    @Override
    public void onNext(byte[] message) {
      queue.add(message);
    }

    @Override
    public void onError(Throwable error) {
      queue.add(Status.fromThrowable(error));
    }

    @Override
    public void onCompleted() {
      queue.add(Status.OK);
    }

    byte[] message() throws InterruptedException {
      Object next = queue.poll(30, TimeUnit.SECONDS);
      check(next instanceof byte[], next);
      return (byte[]) next;
    }

    void ends(Status.Code... codes) throws InterruptedException {
      Object next = queue.poll(30, TimeUnit.SECONDS);
      check(next instanceof Status status && List.of(codes).contains(status.getCode()), next);
    }
  }

  private StreamObserver<byte[]> bidi(String path, CallOptions options, Answers answers) {
    return ClientCalls.asyncBidiStreamingCall(channel.newCall(method(path, MethodType.BIDI_STREAMING), options), answers);
  }

  private void pingPong() throws InterruptedException {
    var answers = new Answers();
    var requests = bidi("etcdserverpb.Lease/LeaseKeepAlive", soon(), answers);
    for (int i = 1; i <= 100; i++) {
      requests.onNext(number(1, i));
      answers.message();
    }
    requests.onCompleted();
    answers.ends(Status.Code.OK);
  }

  private void emptyStream() throws InterruptedException {
    var answers = new Answers();
    bidi("etcdserverpb.Lease/LeaseKeepAlive", soon(), answers).onCompleted();
    answers.ends(Status.Code.OK);
  }

  private void cancel(boolean afterFirst) throws InterruptedException {
    var answers = new Answers();
    var requests = bidi("etcdserverpb.Watch/Watch", soon(), answers);
    if (afterFirst) {
      requests.onNext(field(1, field(1, "watched")));
      answers.message();
    }
    answers.call.cancel("on purpose", null);
    answers.ends(Status.Code.CANCELLED);
  }

  private void timeoutOnSleepingServer() throws InterruptedException {
    var answers = new Answers();
    bidi("etcdserverpb.Watch/Watch", CallOptions.DEFAULT.withDeadlineAfter(1, TimeUnit.MILLISECONDS), answers);
    // At the deadline the server resets the call, and may be faster than the client.
    answers.ends(Status.Code.DEADLINE_EXCEEDED, Status.Code.CANCELLED);
  }

  private void customMetadata() {
    var metadata = new Metadata();
    metadata.put(Metadata.Key.of("x-grpc-test-echo-initial", Metadata.ASCII_STRING_MARSHALLER), "value");
    metadata.put(Metadata.Key.of("x-grpc-test-echo-trailing-bin", Metadata.BINARY_BYTE_MARSHALLER), new byte[] {10, 11});
    metadata.put(Metadata.Key.of("x-long", Metadata.ASCII_STRING_MARSHALLER), "l".repeat(6000));
    var with = io.grpc.ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(metadata));
    ClientCalls.blockingUnaryCall(with, method("etcdserverpb.Maintenance/Status", MethodType.UNARY), soon(), NONE);
  }

  private void refused(String path, Status.Code code, String text) {
    try {
      unary(path, NONE, soon());
    } catch (StatusRuntimeException e) {
      check(e.getStatus().getCode() == code && text.equals(e.getStatus().getDescription()), e);
      return;
    }
    throw new AssertionError(path + " is not refused");
  }

  private void manyCallsAtOnce() throws Exception {
    List<Future<byte[]>> calls = new ArrayList<>();
    for (int i = 0; i < 500; i++) {
      calls.add(ClientCalls.futureUnaryCall(channel.newCall(method("etcdserverpb.KV/Put", MethodType.UNARY), soon()),
          join(field(1, "many/" + i), field(2, new byte[100]))));
    }
    for (var call : calls) {
      call.get();
    }
  }

  private interface Case {
    void run() throws Exception;
  }

  private void run(String name, Case one) throws Exception {
    one.run();
    emptyUnary();
    System.out.println("ok: " + name);
  }

  private void runAll() throws Exception {
    run("empty_unary", this::emptyUnary);
    run("large_unary", () -> largeUnary(soon()));
    run("client_compressed_unary", () -> largeUnary(soon().withCompression("gzip")));
    run("server_streaming", this::serverStreaming);
    run("ping_pong", this::pingPong);
    run("empty_stream", this::emptyStream);
    run("cancel_after_begin", () -> cancel(false));
    run("cancel_after_first_response", () -> cancel(true));
    run("timeout_on_sleeping_server", this::timeoutOnSleepingServer);
    run("custom_metadata", this::customMetadata);
    run("status_code_and_message",
        () -> refused("etcdserverpb.KV/Put", Status.Code.INVALID_ARGUMENT, "etcdserver: key is not provided"));
    run("unimplemented_method", () -> refused("etcdserverpb.KV/UnimplementedCall", Status.Code.UNIMPLEMENTED,
        "unknown method UnimplementedCall for service etcdserverpb.KV"));
    run("unimplemented_service", () -> refused("grpc.testing.Unimplemented/Call", Status.Code.UNIMPLEMENTED,
        "unknown service grpc.testing.Unimplemented"));
    run("many_calls_at_once", this::manyCallsAtOnce);
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().maxInboundMessageSize(16 << 20).build();
    new Interop(channel).runAll();
    channel.shutdownNow();
  }
}
