#!/bin/bash
# pgbench for `cargo xtask bench`: pgbench.sh PORT SECONDS RATE. Four clients; with RATE 0 they run as fast as possible. The time of a
# transaction counts from when it should have begun.
set -eu
port=$1 seconds=$2 rate=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
limit=()
if [ "$rate" != 0 ]; then
    limit=(-R "$rate")
fi
pgbench -n -h 127.0.0.1 -p "$port" -U postgres -c 4 -j 2 -T "$seconds" "${limit[@]}" -l --log-prefix="$folder/log" postgres > "$folder/said"
cat "$folder"/log* | awk '{print $3}' | sort -n > "$folder/times"
awk -v seconds="$seconds" '{ time[NR] = $1 } END {
    if (NR == 0) exit 1
    place = int(NR * 0.999) + 1
    if (place > NR) place = NR
    print "requests", NR
    print "seconds", seconds
    print "latency_us", time[place]
}' "$folder/times"
