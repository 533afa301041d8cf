import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import io.etcd.jetcd.election.NoLeaderException;
import io.etcd.jetcd.election.NotLeaderException;
import io.etcd.jetcd.options.GetOption;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Locks and elections with jetcd, which calls etcd's services Lock and Election. Arguments: addresses of one cluster,
 * host:port each. Two clients take turns, and each is a session with a lease of its own.
 */
public final class Locks {
  /** Longer than a run: leases end only when they are revoked. */
  private static final long TTL_SECONDS = 600;

  private final Session first;
  private final Session second;

  private Locks(String[] endpoints) throws Exception {
    first = new Session(endpoints);
    second = new Session(endpoints);
  }

  /** A client and its lease. */
  private static final class Session implements AutoCloseable {
    final Client client;
    long lease;

    Session(String[] endpoints) throws Exception {
      client = Client.builder().endpoints(endpoints).build();
      renew();
    }

    void renew() throws Exception {
      lease = await(client.getLeaseClient().grant(TTL_SECONDS)).getID();
    }

    /** Ends the lease, as a process does that stops without unlocking. */
    void lose() throws Exception {
      await(client.getLeaseClient().revoke(lease));
      renew();
    }

    CompletableFuture<ByteSequence> lock(String name) {
      return client.getLockClient().lock(bytes(name), lease).thenApply(answer -> answer.getKey());
    }

    void unlock(ByteSequence key) throws Exception {
      await(client.getLockClient().unlock(key));
    }

    Election election() {
      return client.getElectionClient();
    }

    CompletableFuture<LeaderKey> campaign(String name, String value) {
      return election().campaign(bytes(name), lease, bytes(value)).thenApply(answer -> answer.getLeader());
    }

    /** Waits until as many sessions hold or wait for a name. */
    void awaitKeys(String name, long count) throws Exception {
      var prefix = GetOption.builder().isPrefix(true).withCountOnly(true).build();
      while (await(client.getKVClient().get(bytes(name + "/"), prefix)).getCount() != count) {
        Thread.onSpinWait();
      }
    }

    @Override
    public void close() {
      client.close();
    }
  }

  private static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  private static <T> T await(CompletableFuture<T> answer) throws Exception {
    return answer.get(60, TimeUnit.SECONDS);
  }

  private static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  /** A call fails with an error of a class, the text of which may be anything if none is given. */
  private static void fails(CompletableFuture<?> answer, Class<?> kind, String text) throws Exception {
    try {
      await(answer);
    } catch (ExecutionException e) {
      boolean same = kind.isInstance(e.getCause()) && (text == null || e.getCause().getMessage().contains(text));
      check(same, e.getCause());
      return;
    }
    throw new AssertionError("no " + kind);
  }

  private void oneHoldsALock() throws Exception {
    ByteSequence held = await(first.lock("locks/one"));
    check(held.equals(bytes("locks/one/" + Long.toHexString(first.lease))), held);
    check(await(first.lock("locks/one")).equals(held), "the holder is not given its lock again");
    var waiting = second.lock("locks/one");
    second.awaitKeys("locks/one", 2);
    check(!waiting.isDone(), "two hold it");
    ByteSequence other = await(second.lock("locks/another"));
    first.unlock(held);
    second.unlock(await(waiting));
    second.unlock(other);
    first.awaitKeys("locks/one", 0);
  }

  private void aLostSessionFreesALock() throws Exception {
    await(first.lock("locks/lost"));
    var waiting = second.lock("locks/lost");
    second.awaitKeys("locks/lost", 2);
    first.lose();
    second.unlock(await(waiting));
    var unknown = first.client.getLockClient().lock(bytes("locks/lost"), 12345);
    fails(unknown, Exception.class, "requested lease not found");
    first.awaitKeys("locks/lost", 0);
  }

  private void aFailedWaiterLeavesNothing() throws Exception {
    ByteSequence held = await(first.lock("locks/queue"));
    second.lock("locks/queue");
    second.awaitKeys("locks/queue", 2);
    second.lose();
    first.awaitKeys("locks/queue", 1);
    first.unlock(held);
    second.unlock(await(second.lock("locks/queue")));
  }

  /** What an observer is told: values of leaders. */
  private static final class Observer implements Election.Listener {
    final BlockingQueue<Object> told = new LinkedBlockingQueue<>();

    @Override
    public void onNext(LeaderResponse leader) {
      told.add(leader.getKv().getValue().toString(StandardCharsets.UTF_8));
    }

    @Override
    public void onError(Throwable error) {
      told.add(error);
    }

    @Override
    public void onCompleted() {
      told.add("the end");
    }

    void tells(String value) throws InterruptedException {
      Object next = told.poll(60, TimeUnit.SECONDS);
      check(value.equals(next), next);
    }
  }

  private void oneLeads() throws Exception {
    fails(first.election().leader(bytes("elections/one")), NoLeaderException.class, null);
    var observer = new Observer();
    LeaderKey leader = await(first.campaign("elections/one", "first"));
    check(leader.getLease() == first.lease && leader.getRevision() > 0, leader);
    check(leader.getName().equals(bytes("elections/one")), leader.getName());
    second.election().observe(bytes("elections/one"), observer);
    observer.tells("first");
    var waiting = second.campaign("elections/one", "second");
    second.awaitKeys("elections/one", 2);
    check(!waiting.isDone(), "two lead");
    await(first.election().proclaim(leader, bytes("still first")));
    observer.tells("still first");
    var asked = await(second.election().leader(bytes("elections/one"))).getKv();
    check(asked.getKey().equals(leader.getKey()) && asked.getValue().equals(bytes("still first")), asked);
    await(first.election().resign(leader));
    LeaderKey next = await(waiting);
    observer.tells("second");
    fails(first.election().proclaim(leader, bytes("first again")), NotLeaderException.class, null);
    await(second.election().resign(next));
    fails(first.election().leader(bytes("elections/one")), NoLeaderException.class, null);
  }

  private void aLostSessionLosesTheElection() throws Exception {
    LeaderKey lost = await(first.campaign("elections/lost", "first"));
    var waiting = second.campaign("elections/lost", "second");
    second.awaitKeys("elections/lost", 2);
    first.lose();
    LeaderKey next = await(waiting);
    fails(first.election().proclaim(lost, bytes("first")), NotLeaderException.class, null);
    await(second.election().resign(next));
  }

  private interface Case {
    void run() throws Exception;
  }

  private static void run(String name, Case one) throws Exception {
    one.run();
    System.out.println("ok: " + name);
  }

  private void runAll() throws Exception {
    run("one_holds_a_lock", this::oneHoldsALock);
    run("a_lost_session_frees_a_lock", this::aLostSessionFreesALock);
    run("a_failed_waiter_leaves_nothing", this::aFailedWaiterLeavesNothing);
    run("one_leads", this::oneLeads);
    run("a_lost_session_loses_the_election", this::aLostSessionLosesTheElection);
  }

  public static void main(String[] arguments) throws Exception {
    var locks = new Locks(List.of(arguments).stream().map(address -> "http://" + address).toArray(String[]::new));
    try (locks.first; locks.second) {
      locks.runAll();
    }
  }
}
