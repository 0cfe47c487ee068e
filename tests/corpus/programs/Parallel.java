import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Sixteen threads that share a map, an atomic number and a racy one; then parallel streams. */
public class Parallel {
    static long racy;

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        AtomicLong exact = new AtomicLong();
        ConcurrentHashMap<Integer, Integer> map = new ConcurrentHashMap<>();
        List<Future<?>> work = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            int number = i;
            work.add(threads.submit(() -> {
                for (int round = 0; round < 20000; round++) {
                    exact.addAndGet(round ^ number);
                    racy++;
                    map.merge(round % 97, 1, Integer::sum);
                }
            }));
        }
        for (Future<?> one : work) {
            one.get();
        }
        threads.shutdown();
        long sum = IntStream.range(0, 2000000).parallel().mapToLong(i -> (long) i * i % 31).sum();
        long some = Stream.iterate(1, i -> i + 1).limit(200000).parallel().map(i -> "a" + i).filter(t -> t.hashCode() % 3 == 0).count();
        System.out.println(exact.get() + " " + map.values().stream().mapToInt(i -> i).sum() + " " + sum + " " + some + " " + racy);
    }
}
