/** The smallest program: what it costs to start a virtual machine. */
public class Hello {
    public static void main(String[] arguments) {
        System.out.println("hello");
    }
}
