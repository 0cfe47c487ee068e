"""About a second of work with integers, a dictionary and a list, almost without system calls."""

total = 0
seen = {}
values = list(range(1000))
for index in range(4_500_000):
    total = (total * 31 + values[index % 1000]) & 0xFFFFFFFF
    seen[total & 1023] = index
print(total, len(seen))
