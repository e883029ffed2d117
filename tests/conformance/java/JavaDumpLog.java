import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs Apache Kafka's DumpLogSegments many times in one process. A request is a line of arguments separated by tabs; the
 * answer is a line `CODE OUT_BYTES ERR_BYTES` and the tool's output. Stack traces are those that the JVM would print.
 */
public class JavaDumpLog {
    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            int code = run(line.split("\t"), out, err);
            answers.write((code + " " + out.size() + " " + err.size() + "\n").getBytes(StandardCharsets.UTF_8));
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String[] args, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        try (PrintStream said = new PrintStream(out, false, StandardCharsets.UTF_8);
             PrintStream complained = new PrintStream(err, false, StandardCharsets.UTF_8)) {
            System.setOut(said);
            System.setErr(complained);
            try {
                DumpLogSegments.main(args);
                return 0;
            } catch (Throwable error) {
                error.printStackTrace(complained);
                return 1;
            }
        }
    }
}
