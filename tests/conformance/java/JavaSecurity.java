import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Pattern;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Kafka's and Java's side of the checks of names and rules. A request is a line, a word and arguments in hex, each with an
 * x before it; the answer is a line too: a text in hex with an x before it, or a word.
 */
public final class JavaSecurity {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            List<byte[]> given = new ArrayList<>();
            for (int i = 1; i < words.length; i++)
                given.add(HEX.parseHex(words[i].substring(1)));
            System.out.println(answer(words[0], given));
            System.out.flush();
        }
    }

    private static String answer(String request, List<byte[]> given) {
        switch (request) {
            case "name":
                try {
                    return word(new X500Principal(given.get(0)).getName());
                } catch (IllegalArgumentException e) {
                    return "rejected";
                }
            case "map":
                return map(text(given.get(0)), text(given.get(1)));
            case "short":
                return shortName(given);
            case "matches":
                return matches(given);
            default:
                throw new IllegalArgumentException(request);
        }
    }

    private static String map(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = new SslPrincipalMapper(rules);
        } catch (IllegalArgumentException e) {
            return "rejected";
        }
        try {
            return word(mapper.getName(name));
        } catch (java.io.IOException e) {
            return "none";
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            return "fails";
        }
    }

    /** The default realm, the principal, and rules. */
    private static String shortName(List<byte[]> given) {
        List<String> rules = new ArrayList<>();
        for (byte[] rule : given.subList(2, given.size()))
            rules.add(text(rule));
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(text(given.get(0)), rules);
        } catch (IllegalArgumentException e) {
            return "rejected";
        }
        try {
            return word(namer.shortName(KerberosName.parse(text(given.get(1)))));
        } catch (java.io.IOException e) {
            return e.getClass().getSimpleName().equals("BadFormatString") ? "fails" : "none";
        } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
            return text(given.get(1)).contains("@") && e.getMessage().startsWith("Malformed") ? "none" : "fails";
        }
    }

    private static String matches(List<byte[]> given) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(text(given.get(0)));
        } catch (IllegalArgumentException e) {
            return "rejected";
        }
        StringBuilder found = new StringBuilder("m");
        for (byte[] each : given.subList(1, given.size()))
            found.append(pattern.matcher(text(each)).matches() ? '1' : '0');
        return found.toString();
    }

    private static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    private static String word(String text) {
        return "x" + HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
