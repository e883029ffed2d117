import java.lang.reflect.Constructor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import java.security.URIParameter;

/**
 * Java's side of the checks of JAAS texts. Each line of input is "value HEX" or "file NAME HEX"; the answer is "error", or
 * "entries" and for each entry its module, its flag, and its options as KEY=VALUE, all in hex, entries with | between them.
 */
public class JavaJaas {
    public static void main(String[] arguments) throws Exception {
        Constructor<?> ofValue =
            Class.forName("org.apache.kafka.common.security.JaasConfig").getConstructor(String.class, String.class);
        ofValue.setAccessible(true);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = words[0].equals("value")
                    ? shown((Configuration) ofValue.newInstance("K", text(words[1])), "K")
                    : shown(file(text(words[2])), words[1]);
            } catch (Exception error) {
                answer = "error";
            }
            System.out.println(answer);
        }
    }

    private static Configuration file(String text) throws Exception {
        Path path = Files.createTempFile("jaas", ".conf");
        try {
            Files.writeString(path, text);
            return Configuration.getInstance("JavaLoginConfig", new URIParameter(path.toUri()));
        } finally {
            Files.delete(path);
        }
    }

    private static String shown(Configuration configuration, String name) {
        AppConfigurationEntry[] entries = configuration.getAppConfigurationEntry(name);
        if (entries == null)
            return "none";
        StringBuilder out = new StringBuilder("entries");
        for (AppConfigurationEntry entry : entries) {
            String flag = entry.getControlFlag().toString().replaceAll(".*: ", "");
            out.append(" |").append(' ').append(hex(entry.getLoginModuleName())).append(' ').append(hex(flag));
            Map<String, String> options = new TreeMap<>();
            entry.getOptions().forEach((key, value) -> options.put(key == null ? "null" : hex(key), hex((String) value)));
            options.forEach((key, value) -> out.append(' ').append(key).append('=').append(value));
        }
        return out.toString();
    }

    private static String text(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++)
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        StringBuilder out = new StringBuilder("x");
        for (byte one : text.getBytes(StandardCharsets.UTF_8))
            out.append(String.format("%02x", one));
        return out.toString();
    }
}
