"""A handler for each signal that can be handled, a timer, and children that are killed."""
import os
import signal
import time

for number in (signal.SIGINT, signal.SIGHUP, signal.SIGWINCH, signal.SIGCONT, signal.SIGALRM):
    signal.signal(number, lambda got, frame: os.write(1, b"signal %d\n" % got))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
for number in range(15):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    time.sleep(0.04)
    os.kill(child, signal.SIGKILL)
    print("child", os.waitpid(child, 0)[1], flush=True)
