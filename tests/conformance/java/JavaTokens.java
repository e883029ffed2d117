import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse;

/**
 * Kafka's side of the checks of tokens. A request is a line, a word and arguments in hex, each with an x before it:
 * "configure" the URL of the keys, the issuer, the audiences, the claim of the user (each may be empty); "validate" a token; "parse" a
 * first message. The answer is a line: "rejected", or what was found.
 */
public final class JavaTokens {
    private static final HexFormat HEX = HexFormat.of();
    private static BrokerJwtValidator validator;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            byte[][] given = new byte[words.length - 1][];
            for (int i = 1; i < words.length; i++)
                given[i - 1] = HEX.parseHex(words[i].substring(1));
            System.out.println(answer(words[0], given));
            System.out.flush();
        }
    }

    private static String answer(String request, byte[][] given) {
        switch (request) {
            case "configure":
                return configure(given);
            case "validate":
                return validate(new String(given[0], StandardCharsets.UTF_8));
            case "parse":
                return parse(given[0]);
            default:
                throw new IllegalArgumentException(request);
        }
    }

    private static String configure(byte[][] given) {
        String[] texts = Arrays.stream(given).map(each -> new String(each, StandardCharsets.UTF_8)).toArray(String[]::new);
        Map<String, Object> configs = new HashMap<>();
        configs.put("sasl.oauthbearer.jwks.endpoint.url", texts[0]);
        configs.put("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000L);
        configs.put("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100L);
        configs.put("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10000L);
        configs.put("sasl.oauthbearer.clock.skew.seconds", 30);
        configs.put("sasl.oauthbearer.scope.claim.name", "scope");
        configs.put("sasl.oauthbearer.sub.claim.name", texts[3]);
        if (!texts[1].isEmpty())
            configs.put("sasl.oauthbearer.expected.issuer", texts[1]);
        configs.put("sasl.oauthbearer.expected.audience", texts[2].isEmpty() ? List.of() : List.of(texts[2].split(",")));
        AppConfigurationEntry entry = new AppConfigurationEntry(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of());
        validator = new BrokerJwtValidator();
        validator.configure(configs, "OAUTHBEARER", List.of(entry));
        return "configured";
    }

    private static String validate(String token) {
        OAuthBearerToken found;
        try {
            found = validator.validate(token);
        } catch (RuntimeException e) {
            return "rejected";
        }
        return word(found.principalName()) + " " + found.lifetimeMs();
    }

    private static String parse(byte[] message) {
        OAuthBearerClientInitialResponse found;
        try {
            found = new OAuthBearerClientInitialResponse(message);
        } catch (javax.security.sasl.SaslException | RuntimeException e) {
            return "rejected";
        }
        return word(found.tokenValue()) + " " + word(found.authorizationId());
    }

    private static String word(String text) {
        return "x" + HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
