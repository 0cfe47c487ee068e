"""Children that are started, spoken to, and waited for."""
import subprocess
import sys

for number in range(12):
    child = subprocess.Popen(
        ["sh", "-c", "read line; echo got $line; sleep 0.02; exit 3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    printed, _ = child.communicate(f"line {number}\n")
    print(printed.strip(), child.returncode, flush=True)
sys.exit(7)
