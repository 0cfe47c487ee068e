// Sorts and hashes for a while.
import java.util.*;

class Works {
    public static void main(String[] arguments) throws Exception {
        Map<Integer, String> map = new HashMap<>();
        for (int round = 0; round < 2000; round++) {
            map.put(round * 31 % 997, new StringBuilder().append(round).reverse().toString());
            System.identityHashCode(new Object());
        }
        List<String> sorted = new ArrayList<>(map.values());
        Collections.sort(sorted);
        Thread thread = new Thread(() -> System.out.println(sorted.hashCode()));
        thread.start();
        thread.join();
    }
}
