package barnabas.suites;

import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.function.Function;

import sun.misc.Unsafe;

/** Objects of subclasses of Kafka's classes whose constructors would start servers. */
final class StandIns {
    private static final Unsafe UNSAFE = unsafe();

    private StandIns() {
    }

    /** An object whose constructor has not run: all fields are null. */
    @SuppressWarnings("unchecked")
    static <T> T unconstructed(Class<T> type) {
        try {
            return (T) UNSAFE.allocateInstance(type);
        } catch (InstantiationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Sets a private field. */
    static void set(Object object, String name, Object value) {
        try {
            Field field = object.getClass().getDeclaredField(name);
            field.setAccessible(true);
            field.set(object, value);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** An interface of which one method answers. */
    static <T> T answering(Class<T> type, String method, Object answer) {
        return answering(type, Map.of(method, arguments -> answer));
    }

    /** An interface of which some methods answer, by what their arguments are. */
    static <T> T answering(Class<T> type, Map<String, Function<Object[], Object>> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, called, arguments) -> {
            if (answers.containsKey(called.getName())) {
                return answers.get(called.getName()).apply(arguments);
            }
            throw unreachable(called.getName());
        }));
    }

    /** Thrown where a test wants what another process does not have; no exception that a test may expect. */
    static Error unreachable(String what) {
        return new Error("in the JVM of a broker only: " + what);
    }

    private static Unsafe unsafe() {
        try {
            Field field = Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return (Unsafe) field.get(null);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
