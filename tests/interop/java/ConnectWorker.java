import java.util.Arrays;

import org.eclipse.jetty.util.component.AbstractLifeCycle;
import org.eclipse.jetty.util.thread.ShutdownThread;

/**
 * A worker of Kafka Connect that can be stopped by SIGTERM: the main class to run, and its arguments.
 *
 * Connect has Jetty stop the REST server at shutdown and stops it in a shutdown hook of its own as well, at the same
 * time. If Jetty's hook runs later, it finds the server stopping and destroys it: this empties the server's list of
 * components, so the thread pool is never stopped, and Connect's hook waits in Server.join() forever. Here Jetty's hook
 * is registered before the server asks for it, and then removed from the JVM.
 */
public final class ConnectWorker {
    public static void main(String[] arguments) throws Exception {
        ShutdownThread.register(new AbstractLifeCycle() { });
        if (!Runtime.getRuntime().removeShutdownHook(ShutdownThread.getInstance())) {
            throw new IllegalStateException("Jetty has no shutdown hook to remove");
        }
        String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }
}
