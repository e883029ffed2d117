import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Apache Kafka's side of the message checks: reads and writes messages with Kafka's generated classes.
 *
 * <p>A request on standard input is an int32 length and then: one byte, the operation; the name of a message class
 * after an int16 length; an int16 version; the payload. The answer on standard output is an int32 length and then one
 * byte, 0 or 1 for an error, and the result or the exception as text.
 *
 * <p>The operations: 'j' bytes to JSON, 'b' JSON to bytes, 'r' bytes to bytes (read and written again), 'e' the table of
 * error codes.
 */
public final class JavaMessages {
    private static final ObjectMapper JSON = JsonMapper.builder()
        .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
        .disable(JsonGenerator.Feature.QUOTE_NON_NUMERIC_NUMBERS)
        .build();

    private JavaMessages() {
    }

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            int size;
            try {
                size = in.readInt();
            } catch (EOFException end) {
                return;
            }
            byte[] request = new byte[size];
            in.readFully(request);
            byte[] answer;
            byte status = 0;
            try {
                answer = answer(ByteBuffer.wrap(request));
            } catch (RuntimeException | Error | ReflectiveOperationException | IOException refusal) {
                Throwable cause = refusal instanceof InvocationTargetException ? refusal.getCause() : refusal;
                answer = cause.toString().getBytes(StandardCharsets.UTF_8);
                status = 1;
            }
            out.writeInt(answer.length + 1);
            out.writeByte(status);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] answer(ByteBuffer request) throws ReflectiveOperationException, IOException {
        char operation = (char) request.get();
        byte[] name = new byte[request.getShort()];
        request.get(name);
        short version = request.getShort();
        byte[] payload = new byte[request.remaining()];
        request.get(payload);
        if (operation == 'e') {
            return errors().getBytes(StandardCharsets.UTF_8);
        }
        Class<?> type = Class.forName(new String(name, StandardCharsets.US_ASCII));
        switch (operation) {
            case 'j':
                return JSON.writeValueAsBytes(converter(type).getMethod("write", type, short.class)
                    .invoke(null, read(type, version, payload), version));
            case 'b':
                Method reader = converter(type).getMethod("read", JsonNode.class, short.class);
                return bytes((Message) reader.invoke(null, JSON.readTree(payload), version), version);
            case 'r':
                return bytes(read(type, version, payload), version);
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }

    private static Class<?> converter(Class<?> type) throws ClassNotFoundException {
        return Class.forName(type.getName() + "JsonConverter");
    }

    private static Message read(Class<?> type, short version, byte[] payload) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(payload);
        Message message = (Message) type.getConstructor().newInstance();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left");
        }
        return message;
    }

    private static byte[] bytes(Message message, short version) {
        return MessageUtil.byteBufferToArray(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    /** A line for each error: code, name, whether it is retriable. */
    private static String errors() {
        StringBuilder table = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            table.append(error.code()).append(' ').append(error.name()).append(' ').append(retriable).append('\n');
        }
        return table.toString();
    }
}
