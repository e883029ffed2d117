package barnabas.suites;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import org.apache.kafka.common.KafkaFuture;

/** Results of an administrator's requests. */
final class Waiting {
    private Waiting() {
    }

    static <T> T for_(KafkaFuture<T> future) {
        try {
            return future.get(60, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(error.getCause());
        } catch (InterruptedException | TimeoutException error) {
            throw new IllegalStateException(error);
        }
    }
}
