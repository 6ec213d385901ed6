import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * Charges each request to its dataset's running sum, or refuses it, exactly once.
 *
 * <p>Arguments: bootstrap, application, source topic, output topic, state directory, limit (in
 * units of 1e-12), bytes of an answer, bytes of the cache (0: no cache).
 */
public final class KafkaStreamsPeer {
    private static final int DIGITS = 12;

    private static final class Charge implements Processor<String, byte[], String, byte[]> {
        private final ObjectMapper json = new ObjectMapper();
        private final long limit;
        private final int answerBytes;
        private ProcessorContext<String, byte[]> context;
        private KeyValueStore<String, Long> sums;

        Charge(long limit, int answerBytes) {
            this.limit = limit;
            this.answerBytes = answerBytes;
        }

        @Override
        public void init(ProcessorContext<String, byte[]> context) {
            this.context = context;
            this.sums = context.getStateStore("sums");
        }

        @Override
        public void process(Record<String, byte[]> record) {
            try {
                JsonNode request = json.readTree(record.value());
                String epsilon = request.get("claim").get("epsilon").textValue();
                long cost = new BigDecimal(epsilon).movePointRight(DIGITS).longValueExact();
                Long before = sums.get(record.key());
                long sum = (before == null ? 0 : before) + cost;
                boolean granted = sum <= limit;
                if (granted) {
                    sums.put(record.key(), sum);
                }
                ObjectNode answer = json.createObjectNode();
                answer.put("outcome", granted ? "granted" : "refused");
                answer.put("total", granted ? sum : sum - cost);
                answer.set("request", request);
                answer.put("filler", ".".repeat(answerBytes - record.value().length));
                context.forward(record.withValue(json.writeValueAsBytes(answer)));
            } catch (java.io.IOException error) {
                throw new IllegalArgumentException(
                        new String(record.value(), StandardCharsets.UTF_8), error);
            }
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        long limit = Long.parseLong(arguments[5]);
        int answerBytes = Integer.parseInt(arguments[6]);
        long cache = Long.parseLong(arguments[7]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cache);
        StoreBuilder<KeyValueStore<String, Long>> store =
                Stores.keyValueStoreBuilder(
                        Stores.persistentKeyValueStore("sums"), Serdes.String(), Serdes.Long());
        store = cache > 0 ? store.withCachingEnabled() : store.withCachingDisabled();
        Topology topology = new Topology();
        topology.addSource(
                "requests",
                Serdes.String().deserializer(),
                Serdes.ByteArray().deserializer(),
                arguments[2]);
        topology.addProcessor("charge", () -> new Charge(limit, answerBytes), "requests");
        topology.addStateStore(store, "charge");
        topology.addSink(
                "answers",
                arguments[3],
                Serdes.String().serializer(),
                Serdes.ByteArray().serializer(),
                "charge");
        KafkaStreams streams = new KafkaStreams(topology, settings);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(
                                () -> {
                                    streams.close();
                                    stopped.countDown();
                                }));
        streams.start();
        stopped.await();
    }
}
