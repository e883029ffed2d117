import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Runs Apache Kafka's managers of quotas under a clock that the test turns. A line in, a line out:
 *
 *   new TYPE SAMPLES SECONDS        a new manager (Produce, Fetch, Request or ControllerMutation)
 *   set USER CLIENT LIMIT           a quota; "*" is a default, "-" no such part, or no limit
 *   advance MILLISECONDS
 *   record USER CLIENT VALUE        the throttle time
 *   unrecord USER CLIENT VALUE
 *   max USER CLIENT                 the most in a window
 *   strict USER CLIENT VALUES...    for each value 1 or 0 (refused); the throttle time
 *   permissive USER CLIENT VALUES...
 *
 * Names of users and client ids are hexadecimal behind an "x".
 */
public final class JavaQuotas {
    private static final class ManualTime implements Time {
        private long nowMs = 1_000_000_000_000L;

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            nowMs += ms;
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private final ManualTime time = new ManualTime();
    private ClientQuotaManager manager;
    private Metrics metrics;

    private JavaQuotas() {
    }

    public static void main(String[] arguments) throws Exception {
        JavaQuotas quotas = new JavaQuotas();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(quotas.answer(line.split(" ")));
            System.out.flush();
        }
        System.exit(0);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                renew(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                return "ok";
            case "set":
                set(words[1], words[2], words[3]);
                return "ok";
            case "advance":
                time.nowMs += Long.parseLong(words[1]);
                return "ok";
            case "record":
                return "" + manager.maybeRecordAndGetThrottleTimeMs(
                    session(words[1]), name(words[2]), Double.parseDouble(words[3]), time.milliseconds());
            case "unrecord":
                manager.unrecordQuotaSensor(
                    session(words[1]), name(words[2]), Double.parseDouble(words[3]), time.milliseconds());
                return "ok";
            case "max":
                return "" + manager.maxValueInQuotaWindow(session(words[1]), name(words[2]));
            default:
                return change(words);
        }
    }

    private void renew(String type, int samples, int seconds) {
        if (manager != null) {
            manager.shutdown();
            metrics.close();
        }
        metrics = new Metrics(time);
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, seconds);
        if (type.equals("ControllerMutation")) {
            manager = new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty());
        } else {
            QuotaType kind = QuotaType.valueOf(type.toUpperCase());
            manager = new ClientQuotaManager(config, metrics, kind, time, "");
        }
    }

    private void set(String user, String client, String limit) {
        Optional<ConfigEntity> userEntity = Optional.empty();
        if (user.equals("*")) {
            userEntity = Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
        } else if (!user.equals("-")) {
            userEntity = Optional.of(new ClientQuotaManager.UserEntity(session(user).sanitizedUser));
        }
        Optional<ConfigEntity> clientEntity = Optional.empty();
        if (client.equals("*")) {
            clientEntity = Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        } else if (!client.equals("-")) {
            clientEntity = Optional.of(new ClientQuotaManager.ClientIdEntity(name(client)));
        }
        Optional<Quota> quota = limit.equals("-") ? Optional.empty()
            : Optional.of(new Quota(Double.parseDouble(limit), true));
        manager.updateQuota(userEntity, clientEntity, quota);
    }

    private String change(String[] words) {
        ControllerMutationQuotaManager mutations = (ControllerMutationQuotaManager) manager;
        Session session = session(words[1]);
        ControllerMutationQuota quota = words[0].equals("strict")
            ? mutations.newStrictQuotaFor(session, name(words[2]))
            : mutations.newPermissiveQuotaFor(session, name(words[2]));
        StringBuilder allowed = new StringBuilder();
        for (int at = 3; at < words.length; at++) {
            try {
                quota.record(Double.parseDouble(words[at]));
                allowed.append('1');
            } catch (ThrottlingQuotaExceededException e) {
                allowed.append('0');
            }
        }
        return allowed + " " + quota.throttleTime();
    }

    private static Session session(String user) {
        KafkaPrincipal principal = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, name(user));
        return new Session(principal, InetAddress.getLoopbackAddress());
    }

    private static String name(String word) {
        byte[] bytes = new byte[word.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(word.substring(1 + 2 * at, 3 + 2 * at), 16);
        }
        return new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }
}
