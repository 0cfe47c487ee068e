// At many moments tells the stacks of all its threads, as Java itself sees them.
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

public class Moments {
    static final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
    static final Object lock = new Object();
    static int until = 0;
    static long sum;

    // Never compiled into its callers, so that these stay compiled when the moment comes.
    static void tell() {
        if (until == 0 || --until > 0)
            return;
        StringBuilder text = new StringBuilder();
        for (Map.Entry<Thread, StackTraceElement[]> one : Thread.getAllStackTraces().entrySet()) {
            text.append("thread ").append(one.getKey().getName()).append('\n');
            for (StackTraceElement frame : one.getValue())
                text.append(frame.getClassName() + '.' + frame.getMethodName() + ' ' + frame.getLineNumber() + '\n');
        }
        try {
            out.write(text.append("look\n").toString().getBytes(StandardCharsets.US_ASCII));
        } catch (java.io.IOException error) {
            System.exit(1);
        }
    }

    static void moment() { tell(); }

    interface Shape { int area(int size); }

    static class Square implements Shape {
        final int side;
        Square(int side) {
            this.side = side;
            moment();
        }
        public int area(int size) {
            moment();
            return side * size;
        }
    }

    static class Circle extends Square {
        Circle(int side) { super(side + 1); }
        @Override public int area(int size) { return super.area(size) * 3; }
    }

    static int recurse(int depth, long wide, double ratio) {
        if (depth == 0) {
            moment();
            return (int) wide;
        }
        int below = recurse(depth - 1, wide + depth, ratio / 2);
        if (depth % 3 == 0)
            moment();
        return below + 1;
    }

    static int inLambda(int value) {
        IntUnaryOperator twice = number -> {
            moment();
            return number * 2;
        };
        return twice.andThen(number -> number + recurse(2, number, 1)).applyAsInt(value);
    }

    static int inStream(int count) {
        return IntStream.range(0, count)
            .map(Moments::inLambda)
            .filter(number -> number % 3 != 0)
            .sum();
    }

    static synchronized int whileLocked(int value) {
        synchronized (lock.getClass()) {
            moment();
            return value;
        }
    }

    static int byReflection(int value) throws Exception {
        return (int) Moments.class.getDeclaredMethod("whileLocked", int.class).invoke(null, value);
    }

    static final MethodHandle handle = handle();

    static MethodHandle handle() {
        try {
            MethodType type = MethodType.methodType(int.class, int.class);
            return MethodHandles.lookup().findStatic(Moments.class, "inLambda", type);
        } catch (ReflectiveOperationException error) {
            throw new Error(error);
        }
    }

    static int caught(int value) {
        try {
            if (value % 2 == 0)
                throw new IllegalStateException();
            moment();
            return 1;
        } catch (IllegalStateException expected) {
            moment();
            return 2;
        } finally {
            moment();
        }
    }

    static int sorted(int count) {
        List<Integer> numbers = new ArrayList<>();
        for (int at = 0; at < count; at++)
            numbers.add(at * 7 % 5);
        Collections.sort(numbers, (one, two) -> {
            moment();
            return one - two;
        });
        return numbers.get(0);
    }

    static int work(int round) throws Throwable {
        Shape shape = round % 2 == 0 ? new Square(round) : new Circle(round);
        int result = shape.area(2) + recurse(round % 6, 1L << 40, 0.5) + inStream(3) + caught(round) + sorted(4);
        result += (int) handle.invokeExact(round) + byReflection(round);
        return result;
    }

    // ---- threads that wait ----

    static void start(String name, CountDownLatch begun, Runnable body) {
        Thread thread = new Thread(() -> {
            begun.countDown();
            body.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    static void sleepDeep(int depth) {
        if (depth > 0)
            sleepDeep(depth - 1);
        else
            try {
                Thread.sleep(1_000_000);
            } catch (InterruptedException error) {
                throw new Error(error);
            }
    }

    static void waitForever() {
        Object own = new Object();
        synchronized (own) {
            try {
                own.wait();
            } catch (InterruptedException error) {
                throw new Error(error);
            }
        }
    }

    static void accept() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            socket.accept();
        } catch (java.io.IOException error) {
            throw new Error(error);
        }
    }

    static void blocked() {
        synchronized (lock) {
            moment();
        }
    }

    public static void main(String[] arguments) throws Throwable {
        int warm = Integer.parseInt(arguments[0]), moments = Integer.parseInt(arguments[1]);
        CountDownLatch begun = new CountDownLatch(5);
        synchronized (lock) {
            start("sleeps", begun, () -> sleepDeep(5));
            start("waits", begun, Moments::waitForever);
            start("parks", begun, LockSupport::park);
            start("accepts", begun, Moments::accept);
            start("blocked", begun, Moments::blocked);
            begun.await();
            for (int round = 0; round < warm; round++)
                sum += work(round);
            Thread.sleep(100);
            Random random = new Random(7);
            for (int told = 0; told < moments; told++) {
                until = 1 + random.nextInt(60);
                for (int round = 0; until > 0; round++)
                    sum += work(round);
            }
        }
    }
}
