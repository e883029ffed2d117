import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.FeatureVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Prints Apache Kafka's tables of metadata versions and of features, a line for each level. */
public final class JavaVersions {
    private JavaVersions() {
    }

    public static void main(String[] words) {
        for (MetadataVersion version : MetadataVersion.values()) {
            System.out.println("metadata.version " + version.featureLevel() + " " + version.version()
                + " " + version.isProduction() + " " + version.didMetadataChange()
                + " " + version.registerBrokerRecordVersion() + " " + version.partitionRecordVersion()
                + " " + version.partitionChangeRecordVersion());
        }
        for (Feature feature : Feature.PRODUCTION_FEATURES) {
            for (FeatureVersion level : feature.featureVersions()) {
                StringBuilder line = new StringBuilder(feature.featureName() + " " + level.featureLevel()
                    + " " + level.bootstrapMetadataVersion().featureLevel());
                for (Map.Entry<String, Short> needed : new TreeMap<>(level.dependencies()).entrySet()) {
                    line.append(" ").append(needed.getKey()).append("=").append(needed.getValue());
                }
                System.out.println(line);
            }
        }
    }
}
