import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.security.oauthbearer.JwtRetriever;

/**
 * Kafka's side of fetching tokens. A request is a line: the properties of a client in hex, in which those that begin with "jaas." are
 * options of the login module. The answer is a line: "fetched" and the token, or "failed" and the class of the exception.
 */
public final class JavaRetriever {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(new String(HEX.parseHex(line), StandardCharsets.UTF_8)));
            System.out.flush();
        }
    }

    private static String answer(String text) throws Exception {
        Properties given = new Properties();
        given.load(new StringReader(text));
        Map<String, String> options = new HashMap<>();
        Map<String, String> texts = new HashMap<>();
        for (String name : given.stringPropertyNames()) {
            if (name.startsWith("jaas."))
                options.put(name.substring(5), given.getProperty(name));
            else
                texts.put(name, given.getProperty(name));
        }
        try {
            return "fetched " + retrieve(texts, options);
        } catch (Exception error) {
            return "failed " + error.getClass().getSimpleName();
        }
    }

    private static String retrieve(Map<String, String> texts, Map<String, String> options) throws Exception {
        ConfigDef definition = new ConfigDef();
        SaslConfigs.addClientSaslSupport(definition);
        AbstractConfig config = new AbstractConfig(definition, texts, false);
        AppConfigurationEntry entry = new AppConfigurationEntry(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
        Class<?> kind = config.getClass(SaslConfigs.SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS);
        JwtRetriever retriever = (JwtRetriever) kind.getDeclaredConstructor().newInstance();
        try (retriever) {
            retriever.configure(config.values(), "OAUTHBEARER", List.of(entry));
            return retriever.retrieve();
        }
    }
}
