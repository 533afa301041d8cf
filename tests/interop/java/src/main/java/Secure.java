import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.grpc.CallOptions;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * TLS, client certificates and tokens, with gRPC's Java library and with jetcd. Arguments: an address, and the folder with
 * the certificates of alice, who may use /app/, and of stranger, who is no user.
 */
public final class Secure {
  private static final String DENIED = "etcdserver: permission denied";
  private final String address;
  private final File folder;

  private Secure(String address, File folder) {
    this.address = address;
    this.folder = folder;
  }

  private ManagedChannel connect(String name, String authority) throws IOException {
    var credentials = TlsChannelCredentials.newBuilder().trustManager(new File(folder, authority));
    if (name != null) {
      credentials.keyManager(new File(folder, name + ".pem"), new File(folder, name + ".pk8"));
    }
    return NettyChannelBuilder.forTarget(address, credentials.build()).build();
  }

  private static byte[] call(ManagedChannel channel, String path, byte[] request, String token) {
    var metadata = new Metadata();
    if (token != null) {
      metadata.put(Metadata.Key.of("token", Metadata.ASCII_STRING_MARSHALLER), token);
    }
    var with = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(metadata));
    var soon = CallOptions.DEFAULT.withDeadlineAfter(30, TimeUnit.SECONDS);
    return ClientCalls.blockingUnaryCall(with, Interop.method(path, MethodType.UNARY), soon, request);
  }

  private static byte[] pair(String first, String second) {
    return Interop.join(Interop.field(1, first), Interop.field(2, second));
  }

  private static void put(ManagedChannel channel, String key, String token) {
    call(channel, "etcdserverpb.KV/Put", pair(key, "value"), token);
  }

  private static byte[] authenticate(ManagedChannel channel, String password) {
    return call(channel, "etcdserverpb.Auth/Authenticate", pair("alice", password), null);
  }

  /** The second field, behind the header. */
  private static String tokenIn(byte[] answer) {
    int begin = 2 + answer[1];
    return new String(answer, begin + 2, answer[begin + 1], StandardCharsets.UTF_8);
  }

  private static void refused(Status.Code code, String text, Runnable call) {
    try {
      call.run();
    } catch (StatusRuntimeException e) {
      if (e.getStatus().getCode() == code && (text == null || text.equals(e.getStatus().getDescription()))) {
        return;
      }
      throw e;
    }
    throw new AssertionError("not refused as " + code);
  }

  private static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  private ClientBuilder jetcd(String name) throws IOException {
    return Client.builder()
        .endpoints("https://" + address)
        .sslContext(context -> context
            .trustManager(new File(folder, "ca.pem"))
            .keyManager(new File(folder, name + ".pem"), new File(folder, name + ".pk8")));
  }

  /** The same with an etcd client. */
  private static void mayUseApp(ClientBuilder builder) throws Exception {
    try (Client client = builder.build()) {
      client.getKVClient().put(bytes("/app/jetcd"), bytes("value")).get(30, TimeUnit.SECONDS);
      try {
        client.getKVClient().put(bytes("/other"), bytes("value")).get(30, TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        if (String.valueOf(e.getCause()).contains(DENIED)) {
          return;
        }
        throw e;
      }
      throw new AssertionError("jetcd may put /other");
    }
  }

  private void runAll() throws Exception {
    ManagedChannel alice = connect("alice", "ca.pem");
    ManagedChannel stranger = connect("stranger", "ca.pem");
    put(alice, "/app/java", null);
    refused(Status.Code.PERMISSION_DENIED, DENIED, () -> put(alice, "/other", null));
    String token = tokenIn(authenticate(stranger, "of alice"));
    put(stranger, "/app/java", token);
    refused(Status.Code.PERMISSION_DENIED, DENIED, () -> put(stranger, "/other", token));
    refused(Status.Code.UNAUTHENTICATED, "etcdserver: invalid auth token", () -> put(stranger, "/app/java", "x.1"));
    refused(Status.Code.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password",
        () -> authenticate(stranger, "wrong"));
    alice.shutdownNow();
    stranger.shutdownNow();
    for (var bad : new String[][] {{null, "ca.pem"}, {"alice", "foreign.pem"}, {"revoked", "ca.pem"}}) {
      ManagedChannel channel = connect(bad[0], bad[1]);
      refused(Status.Code.UNAVAILABLE, null, () -> put(channel, "/app/java", null));
      channel.shutdownNow();
    }
    mayUseApp(jetcd("alice"));
    mayUseApp(jetcd("stranger").user(bytes("alice")).password(bytes("of alice")));
    System.out.println("ok: secure");
  }

  public static void main(String[] arguments) throws Exception {
    new Secure(arguments[0], new File(arguments[1])).runAll();
  }
}
