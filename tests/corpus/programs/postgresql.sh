#!/bin/bash
# make: makes a cluster and pgbench's tables in $WORK/data. serve: runs the server on $PORT. Root becomes the user postgres, who then owns the folder.
set -e
folder=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | tail -1)")
as=()
if [ "$(id -u)" = 0 ]; then
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
export LC_ALL=C
if [ "$1" = make ]; then
    mkdir -p "$WORK/data"
    [ "$(id -u)" = 0 ] && chown postgres "$WORK/data"
    "${as[@]}" "$folder/initdb" -D "$WORK/data" -U postgres --auth=trust > /dev/null
    "${as[@]}" "$folder/pg_ctl" -s -w -D "$WORK/data" -o "-c listen_addresses='' -k $WORK/data" -l "$WORK/data/log" start
    pgbench -q -i -s 1 -h "$WORK/data" -U postgres postgres 2> /dev/null
    "${as[@]}" "$folder/pg_ctl" -s -w -D "$WORK/data" stop
else
    exec "${as[@]}" "$folder/postgres" -D "$WORK/data" -p "$PORT" -c listen_addresses=127.0.0.1 -k "$WORK/data"
fi
