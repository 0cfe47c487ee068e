#!/bin/bash
# sysbench for `cargo xtask bench`. sysbench.sh WORK prepare: starts a server on WORK/first, fills its tables, stops it. sysbench.sh WORK
# SECONDS RATE: four clients on WORK/socket; with RATE 0 they run as fast as possible.
set -eu
work=$1
options=(oltp_read_write --db-driver=mysql "--mysql-socket=$work/socket" --mysql-user=root --tables=2 --table-size=1000)
if [ "$2" = prepare ]; then
    mariadbd --no-defaults "--datadir=$work/first" "--socket=$work/socket" --skip-networking "--user=$(id -un)" --innodb-use-native-aio=0 \
        --innodb-log-file-size=16M > "$work/prepare.log" 2>&1 &
    server=$!
    trap 'kill "$server" 2> /dev/null || true; wait "$server" || true' EXIT
    for ((try = 0; try < 300; try++)); do
        if mariadb --no-defaults -S "$work/socket" -u root -e 'create database if not exists sbtest' 2> /dev/null; then
            sysbench "${options[@]}" prepare > /dev/null
            exit 0
        fi
        sleep 0.1
    done
    echo 'the server does not answer' >&2
    exit 1
fi
limit=()
if [ "$3" != 0 ]; then
    limit=("--rate=$3")
fi
sysbench "${options[@]}" --threads=4 "--time=$2" "${limit[@]}" --db-ps-mode=disable --histogram=on run > "$work/said"
awk '/^ *[0-9.]+ \|.* [0-9]+$/ { bucket[++buckets] = $1; count[buckets] = $NF; all += $NF }
    /total time:/ { sub("s", "", $3); seconds = $3 }
    END {
        if (all == 0) exit 1
        for (index_ = 1; index_ <= buckets && sum < all * 0.999; index_++) { sum += count[index_]; latency = bucket[index_] }
        print "requests", all
        print "seconds", seconds
        print "latency_us", latency * 1000
    }' "$work/said"
