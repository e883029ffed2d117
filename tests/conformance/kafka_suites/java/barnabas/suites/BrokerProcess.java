package barnabas.suites;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * A Barnabas process with the settings of a broker of Kafka's tests, and one more listener for the harness itself.
 *
 * The settings of controllers go: the process is broker and controller at once, as it is by default.
 */
final class BrokerProcess {
    private static final String OWN_LISTENER = "HARNESS";
    private static final String OWN_USER = "the-harness-itself";
    private static final String OWN_PASSWORD = "of-the-harness";
    private static final String UNAUTHORIZED = "python:tests.conformance.kafka_suites.principals:Unauthorized";
    private static final long START_LIMIT_NS = 120_000_000_000L;
    /** Java classes that tests name in settings, and the Python class which does the same. */
    private static final Map<String, String> CLASSES = Map.of(
        "kafka.api.AbstractAuthorizerIntegrationTest$PrincipalBuilder",
        "python:tests.conformance.kafka_suites.principals:ByListener",
        "org.apache.kafka.clients.security.GroupAuthorizerIntegrationTest$GroupPrincipalBuilder",
        "python:tests.conformance.kafka_suites.principals:Groups",
        "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningUnauthorized",
        UNAUTHORIZED,
        "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningUnauthorized",
        UNAUTHORIZED,
        "kafka.server.AlterCredentialsTest$TestPrincipalBuilderReturningAuthorized",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "kafka.server.DescribeCredentialsTest$TestPrincipalBuilderReturningAuthorized",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder");
    /** Authorizers of tests which deny a request of the user Unauthorized, and allow others: here others are super users. */
    private static final Set<String> AUTHORIZERS = Set.of(
        "kafka.server.AlterCredentialsTest$TestStandardAuthorizer", "kafka.server.DescribeCredentialsTest$TestStandardAuthorizer");

    private final Path directory;
    private final Map<String, String> settings = new TreeMap<>();
    private final Map<String, Integer> ports = new TreeMap<>();
    private final List<String> formatting;
    private ProcessHandle process;
    private Admin admin;

    BrokerProcess(Map<?, ?> wanted, List<String> formatting) {
        this.formatting = formatting;
        try {
            directory = Files.createTempDirectory("barnabas-suite");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        translate(wanted);
    }

    int port(String listener) {
        Integer port = ports.get(listener);
        if (port == null) {
            throw new IllegalArgumentException("no listener " + listener + " among " + ports.keySet());
        }
        return port;
    }

    boolean isRunning() {
        return process != null && process.isAlive();
    }

    /** A client with all rights, over the harness's own listener. */
    synchronized Admin admin() {
        if (admin == null) {
            Properties client = new Properties();
            client.put("bootstrap.servers", "127.0.0.1:" + ports.get(OWN_LISTENER));
            client.put("security.protocol", "SASL_PLAINTEXT");
            client.put("sasl.mechanism", "PLAIN");
            client.put("sasl.jaas.config", login("username=\"" + OWN_USER + "\" password=\"" + OWN_PASSWORD + "\""));
            admin = Admin.create(client);
        }
        return admin;
    }

    void start() {
        if (isRunning()) {
            return;
        }
        Path file = directory.resolve("server.properties");
        try {
            Properties properties = new Properties();
            properties.putAll(settings);
            try (var out = Files.newOutputStream(file)) {
                properties.store(out, null);
            }
            Files.deleteIfExists(output());
            process = ForkServer.fork(file, output(), environment(), formatting);
            awaitReady();
            letUnauthorizedMakeOffsetsTopic();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    void stop() {
        if (admin != null) {
            admin.close();
            admin = null;
        }
        if (process != null) {
            process.destroyForcibly();
            while (process.isAlive()) { // onExit() would start a thread, and tests look for threads that are left
                LockSupport.parkNanos(1_000_000);
            }
        }
    }

    private void awaitReady() throws IOException {
        long deadline = System.nanoTime() + START_LIMIT_NS;
        while (!Files.exists(output()) || !Files.readString(output()).contains(" is ready on ")) {
            if (!process.isAlive() || System.nanoTime() > deadline) {
                stop();
                throw new IllegalStateException("Barnabas has not started:\n" + Files.readString(output()));
            }
            LockSupport.parkNanos(10_000_000);
        }
    }

    /** The authorizers of those tests deny one API alone, and the harness of Kafka makes this topic as the client. */
    private void letUnauthorizedMakeOffsetsTopic() {
        if (UNAUTHORIZED.equals(settings.get("principal.builder.class"))) {
            var topic = new ResourcePattern(ResourceType.TOPIC, "__consumer_offsets", PatternType.LITERAL);
            var all = new AccessControlEntry("User:Unauthorized", "*", AclOperation.ALL, AclPermissionType.ALLOW);
            Waiting.for_(admin().createAcls(List.of(new AclBinding(topic, all))).all());
        }
    }

    private Path output() {
        return directory.resolve("output");
    }

    /** The variables by which a process knows what Kafka's tests set as properties of the JVM. */
    private static Map<String, String> environment() {
        List<String> flags = new ArrayList<>();
        for (String name : List.of("java.security.auth.login.config", "org.apache.kafka.sasl.oauthbearer.allowed.urls")) {
            String value = System.getProperty(name);
            if (value != null) {
                flags.add("-D" + name + "=" + value);
            }
        }
        return flags.isEmpty() ? Map.of() : Map.of("KAFKA_OPTS", String.join(" ", flags));
    }

    private void translate(Map<?, ?> wanted) {
        wanted.forEach((key, value) -> {
            if (value != null) {
                settings.put(key.toString(), text(value));
            }
        });
        List<String> controllers = words(settings.getOrDefault("controller.listener.names", "CONTROLLER"));
        settings.keySet().removeIf(key -> key.startsWith("controller.quorum.") || key.equals("controller.listener.names")
            || key.equals("process.roles") || key.equals("metadata.log.dir") || key.equals("advertised.listeners"));
        Map<String, String> protocols = new TreeMap<>();
        words(settings.getOrDefault("listener.security.protocol.map", "")).forEach(entry -> {
            String[] parts = entry.split(":");
            if (!controllers.contains(parts[0])) {
                protocols.put(parts[0], parts[1]);
            }
        });
        List<String> listeners = new ArrayList<>();
        for (String listener : words(settings.getOrDefault("listeners", "PLAINTEXT://localhost:0"))) {
            String name = listener.substring(0, listener.indexOf("://"));
            if (!controllers.contains(name)) {
                ports.put(name, freePort());
                listeners.add(listener.substring(0, listener.lastIndexOf(':') + 1) + ports.get(name));
                protocols.putIfAbsent(name, name);
            }
        }
        ports.put(OWN_LISTENER, freePort());
        listeners.add(OWN_LISTENER + "://127.0.0.1:" + ports.get(OWN_LISTENER));
        protocols.put(OWN_LISTENER, "SASL_PLAINTEXT");
        settings.put("listeners", String.join(",", listeners));
        settings.put("listener.security.protocol.map", String.join(",", protocols.entrySet().stream()
            .map(entry -> entry.getKey() + ":" + entry.getValue()).toList()));
        String prefix = "listener.name." + OWN_LISTENER.toLowerCase() + ".";
        settings.put(prefix + "sasl.enabled.mechanisms", "PLAIN");
        settings.put(prefix + "plain.sasl.jaas.config", login("user_" + OWN_USER + "=\"" + OWN_PASSWORD + "\""));
        if (AUTHORIZERS.contains(settings.getOrDefault("authorizer.class.name", ""))) {
            settings.put("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            settings.put("super.users", "User:ANONYMOUS");
        }
        if (settings.containsKey("authorizer.class.name")) {
            String users = settings.getOrDefault("super.users", "");
            settings.put("super.users", (users.isEmpty() ? "" : users + ";") + "User:" + OWN_USER);
        }
        settings.computeIfPresent("principal.builder.class", (key, name) -> CLASSES.getOrDefault(name, name));
        settings.putIfAbsent("log.dirs", settings.getOrDefault("log.dir", directory.resolve("data").toString()));
        settings.put("barnabas.http.port", "-1");
    }

    private static String login(String options) {
        return "org.apache.kafka.common.security.plain.PlainLoginModule required " + options + ";";
    }

    private static String text(Object value) {
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof org.apache.kafka.common.config.types.Password password) {
            return password.value();
        }
        if (value instanceof java.util.Collection<?> many) {
            return String.join(",", many.stream().map(BrokerProcess::text).toList());
        }
        return value.toString();
    }

    private static List<String> words(String text) {
        return Arrays.stream(text.split(",")).map(String::strip).filter(word -> !word.isEmpty()).toList();
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
