package barnabas.suites;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;

/** The Python process of which every broker is a fork: tests/conformance/kafka_suites/fork_server.py. */
final class ForkServer {
    private static Process process;
    private static BufferedReader answers;
    private static PrintWriter requests;

    private ForkServer() {
    }

    /** Starts a broker; it may not be ready yet. */
    static synchronized ProcessHandle fork(
            Path properties, Path output, Map<String, String> environment, List<String> formatting) throws IOException {
        if (process == null) {
            begin();
        }
        Map<String, Object> wanted = new LinkedHashMap<>();
        wanted.put("properties", properties.toString());
        wanted.put("output", output.toString());
        wanted.put("environment", environment);
        wanted.put("formatting", formatting);
        requests.println(new ObjectMapper().writeValueAsString(wanted));
        return ProcessHandle.of(Long.parseLong(answers.readLine())).orElseThrow();
    }

    private static void begin() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(
            System.getProperty("barnabas.python"), "-m", "tests.conformance.kafka_suites.fork_server");
        builder.directory(Path.of(System.getProperty("barnabas.root")).toFile());
        builder.environment().keySet().removeIf(name -> name.startsWith("KAFKA_"));
        process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        answers = process.inputReader(StandardCharsets.UTF_8);
        requests = new PrintWriter(process.outputWriter(StandardCharsets.UTF_8), true);
    }
}
