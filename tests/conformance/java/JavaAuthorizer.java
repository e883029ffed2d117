import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;

/**
 * Apache Kafka's StandardAuthorizer: takes ACLs, and answers questions with its decision and the line in its audit log.
 * A request is a line of words, the answer one line or several, of which the last is "end" or "error CLASS".
 * Strings are in hex.
 */
public final class JavaAuthorizer {
    private static final HexFormat HEX = HexFormat.of();
    private static final Lines LINES = new Lines();
    private static final List<Uuid> IDS = new ArrayList<>();
    private static StandardAuthorizer authorizer;

    /** Keeps the lines of the audit log. */
    private static final class Lines extends AbstractAppender {
        private final List<String> kept = new ArrayList<>();

        private Lines() {
            super("lines", null, null, false, Property.EMPTY_ARRAY);
            start();
        }

        @Override
        public void append(LogEvent event) {
            kept.add(event.getLevel() + " " + event.getMessage().getFormattedMessage());
        }
    }

    public static void main(String[] args) throws IOException {
        Configurator.setLevel("kafka.authorizer.logger", Level.TRACE);
        ((Logger) LogManager.getLogger("kafka.authorizer.logger")).addAppender(LINES);
        ((Logger) LogManager.getLogger("kafka.authorizer.logger")).setAdditive(false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Iterator<String> words = Arrays.asList(line.split(" ")).iterator();
            List<String> answer = new ArrayList<>();
            try {
                handle(words, answer);
                answer.add("end");
            } catch (RuntimeException | IOException | Error error) {
                answer.add("error " + error);
            }
            answer.forEach(out::println);
            out.flush();
        }
    }

    private static void handle(Iterator<String> words, List<String> answer) throws IOException {
        String request = words.next();
        switch (request) {
            case "new" -> create(words);
            case "acl" -> add(acl(words));
            case "remove" -> authorizer.removeAcl(IDS.get(code(words)));
            case "ask" -> ask(words, answer);
            case "any" -> any(words, answer);
            case "host" -> answer.add(hex(InetAddress.getByName(text(words)).getHostAddress()));
            default -> throw new IllegalArgumentException(request);
        }
    }

    private static void create(Iterator<String> words) {
        IDS.clear();
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", text(words), "allow.everyone.if.no.acl.found", text(words), "node.id", "1"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
    }

    private static void add(StandardAcl acl) {
        IDS.add(Uuid.randomUuid());
        authorizer.addAcl(IDS.get(IDS.size() - 1), acl);
    }

    private static StandardAcl acl(Iterator<String> words) {
        ResourceType type = ResourceType.fromCode(code(words));
        String name = text(words);
        PatternType pattern = PatternType.fromCode(code(words));
        String principal = text(words);
        String host = text(words);
        AclOperation operation = AclOperation.fromCode(code(words));
        return new StandardAcl(
            type, name, pattern, principal, host, operation, AclPermissionType.fromCode(code(words)));
    }

    private static void ask(Iterator<String> words, List<String> answer) throws UnknownHostException {
        AuthorizableRequestContext context = context(words);
        AclOperation operation = AclOperation.fromCode(code(words));
        ResourceType type = ResourceType.fromCode(code(words));
        ResourcePattern resource = new ResourcePattern(type, text(words), PatternType.LITERAL);
        int references = code(words);
        boolean logIfAllowed = code(words) == 1;
        boolean logIfDenied = code(words) == 1;
        LINES.kept.clear();
        List<AuthorizationResult> results = authorizer.authorize(
            context, List.of(new Action(operation, resource, references, logIfAllowed, logIfDenied)));
        answer.add(results.get(0) == AuthorizationResult.ALLOWED ? "1" : "0");
        LINES.kept.forEach(line -> answer.add(hex(line)));
    }

    private static void any(Iterator<String> words, List<String> answer) throws UnknownHostException {
        AuthorizableRequestContext context = context(words);
        AclOperation operation = AclOperation.fromCode(code(words));
        ResourceType type = ResourceType.fromCode(code(words));
        boolean allowed =
            authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED;
        answer.add(allowed ? "1" : "0");
    }

    private record Context(KafkaPrincipal principal, InetAddress clientAddress, int requestType)
        implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    private static AuthorizableRequestContext context(Iterator<String> words) throws UnknownHostException {
        KafkaPrincipal principal = new KafkaPrincipal(text(words), text(words));
        InetAddress address = InetAddress.getByName(text(words));
        return new Context(principal, address, code(words));
    }

    private static byte code(Iterator<String> words) {
        return Byte.parseByte(words.next());
    }

    private static String text(Iterator<String> words) {
        return new String(HEX.parseHex(words.next().substring(1)), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return "x" + HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
