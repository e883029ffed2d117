import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.utils.Exit;

/**
 * Apache Kafka's Java AdminClient, its consumer and its command-line tools in one JVM, so that each run takes milliseconds.
 * A request is a line of JSON with "do" and "bootstrap", the answer one of {"answer": ...} or {"error": ..., "message": ...}.
 */
public final class JavaAdmin {
    private static final ObjectMapper JSON = new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);
    private static final Map<String, Admin> ADMINS = new HashMap<>();
    private static final Switch OUT = new Switch(System.err);
    private static final Switch ERR = new Switch(System.err);

    /** The output of a tool: the only target for everything that this JVM prints. */
    private static final class Switch extends OutputStream {
        private volatile OutputStream target;

        Switch(OutputStream target) {
            this.target = target;
        }

        @Override
        public void write(int value) throws IOException {
            target.write(value);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) throws IOException {
            target.write(bytes, offset, length);
        }

        @Override
        public void flush() throws IOException {
            target.flush();
        }
    }

    /** Thrown in a tool in place of ending the JVM; some tools catch it, and their output after that is ignored. */
    private static final class ExitCalled extends Error {
        ExitCalled() {
            super(null, null, false, false);
        }
    }

    /** The first exit that a tool requested: its status, and the output up to then. */
    private static final class ToolEnd {
        private final ByteArrayOutputStream out;
        private final ByteArrayOutputStream err;
        private Map<String, Object> shown;

        ToolEnd(ByteArrayOutputStream out, ByteArrayOutputStream err) {
            this.out = out;
            this.err = err;
        }

        void called(int status) {
            at(status);
            throw new ExitCalled();
        }

        Map<String, Object> at(int status) {
            if (shown == null) {
                System.out.flush();
                System.err.flush();
                shown = new LinkedHashMap<>();
                shown.put("status", status);
                shown.put("out", out.toString(StandardCharsets.UTF_8));
                shown.put("err", err.toString(StandardCharsets.UTF_8));
            }
            return shown;
        }
    }

    public static void main(String[] args) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        PrintStream silent = System.err;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            answers.println(JSON.writeValueAsString(answer(line)));
            answers.flush();
            silent.flush();
        }
        ADMINS.values().forEach(admin -> admin.close(Duration.ZERO));
    }

    private static Map<String, Object> answer(String line) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("answer", handle(JSON.readTree(line)));
        } catch (Throwable error) {
            answer.putAll(failure(error));
        }
        return answer;
    }

    private static Object handle(JsonNode request) throws Exception {
        String what = request.path("do").asText();
        return switch (what) {
            case "tool" -> tool(request);
            case "tree" -> MetadataTree.of(strings(request.path("files")));
            case "forget" -> forget(request.path("bootstrap").asText());
            case "describe" -> new ClusterView(admin(request), request).everything();
            default -> AdminOperations.run(what, admin(request), request);
        };
    }

    /** An error for comparison: the class of the exception and its message. */
    static Map<String, Object> failure(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof ExecutionException || cause instanceof InvocationTargetException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("error", cause.getClass().getSimpleName());
        shown.put("message", cause.getMessage());
        return shown;
    }

    static String[] strings(JsonNode list) {
        String[] texts = new String[list.size()];
        for (int i = 0; i < texts.length; i++) {
            texts[i] = list.get(i).asText();
        }
        return texts;
    }

    private static Admin admin(JsonNode request) {
        return ADMINS.computeIfAbsent(request.path("bootstrap").asText(), bootstrap -> {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("client.id", "java-admin");
            properties.put("default.api.timeout.ms", "30000");
            properties.put("request.timeout.ms", "20000");
            properties.put("enable.metrics.push", "false");
            return Admin.create(properties);
        });
    }

    private static Object forget(String bootstrap) {
        Admin admin = ADMINS.remove(bootstrap);
        if (admin != null) {
            admin.close(Duration.ZERO);
        }
        return null;
    }

    /** Runs a tool, one of Kafka's classes with a main method; returns its output on both streams and its exit status. */
    private static Object tool(JsonNode request) throws Exception {
        Class<?> tool = Class.forName(request.path("class").asText());
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        ToolEnd end = new ToolEnd(out, err);
        Exit.Procedure procedure = (status, message) -> end.called(status);
        Exit.setExitProcedure(procedure);
        Exit.setHaltProcedure(procedure);
        Exit.setShutdownHookAdder((name, hook) -> { });
        OutputStream quietOut = OUT.target;
        OutputStream quietErr = ERR.target;
        OUT.target = out;
        ERR.target = err;
        try {
            tool.getMethod("main", String[].class).invoke(null, (Object) strings(request.path("args")));
            return end.at(0);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof ExitCalled)) {
                error.getCause().printStackTrace(System.err);
            }
            return end.at(1);
        } finally {
            OUT.target = quietOut;
            ERR.target = quietErr;
        }
    }
}
