package barnabas.suites;

import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import java.util.regex.Pattern;

import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.TestSource;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes one after the other: RunSuites REPORT CLASS[-METHOD,METHOD...]...
 *
 * `-` is before methods that are left out, `+` before the only ones; `*` in a name stands for any letters. The report has a line for each case when it ends:
 * class, case, result, milliseconds and, of a failure, its stack trace, with tabs between and \n for ends of lines.
 */
public final class RunSuites implements TestExecutionListener {
    private final PrintStream report;
    private final String suite;
    private long begun;

    private RunSuites(PrintStream report, String suite) {
        this.report = report;
        this.suite = suite;
    }

    public static void main(String[] words) throws IOException {
        try (PrintStream report = new PrintStream(Files.newOutputStream(Path.of(words[0])), true, StandardCharsets.UTF_8)) {
            for (String word : Arrays.asList(words).subList(1, words.length)) {
                int sign = Math.max(word.indexOf('+'), word.indexOf('-'));
                String name = sign < 0 ? word : word.substring(0, sign);
                String globs = sign < 0 ? "" : word.substring(sign + 1);
                Pattern methods = Pattern.compile(globs.replace("*", ".*").replace(",", "|"));
                run(report, name, methods, sign < 0 || word.charAt(sign) == '-');
                report.println(name + "\t\tended\t0\t");
            }
        }
        System.exit(0);
    }

    private static void run(PrintStream report, String name, Pattern methods, boolean areLeftOut) {
        PostDiscoveryFilter filter = test -> FilterResult.includedIf(methodOf(test.getSource()).isEmpty()
            || methods.matcher(methodOf(test.getSource())).matches() != areLeftOut);
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.selectClass(name)).filters(filter)
            .configurationParameter("junit.jupiter.execution.timeout.default", System.getProperty("barnabas.limit", "300 s"))
            .build();
        LauncherFactory.create().execute(request, new RunSuites(report, name));
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        begun = System.nanoTime();
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        line(test, "skipped", reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        if (test.isTest() || result.getStatus() != TestExecutionResult.Status.SUCCESSFUL) {
            line(test, result.getStatus().name().toLowerCase(), result.getThrowable().map(RunSuites::trace).orElse(""));
        }
    }

    private void line(TestIdentifier test, String result, String text) {
        long ms = (System.nanoTime() - begun) / 1_000_000;
        String escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ").replace("\r", "");
        report.println(String.join("\t", suite, caseOf(test), result, Long.toString(ms), escaped));
    }

    /** The method, and #2 for its second invocation. */
    private static String caseOf(TestIdentifier test) {
        var last = test.getUniqueIdObject().getLastSegment();
        String method = methodOf(test.getSource());
        return last.getType().endsWith("invocation") ? method + last.getValue() : method;
    }

    private static String methodOf(Optional<TestSource> source) {
        return source.filter(MethodSource.class::isInstance).map(method -> ((MethodSource) method).getMethodName()).orElse("");
    }

    private static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        error.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
