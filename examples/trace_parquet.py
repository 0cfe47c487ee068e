#!/usr/bin/env python3
"""Asks a trace of system calls a few questions, with DuckDB or with pandas.

Usage: trace_parquet.py TRACE.ds [RETAKE]

RETAKE is the command to convert with, `retake` if it is left out. Ends with status 77 if neither DuckDB nor pandas is installed.
"""

import pathlib
import subprocess
import sys
import tempfile

TEXT = "given_pathname,full_pathname,errno_string,call_name"


def with_duckdb(duckdb, table):
    """One wide table. The name of a call is the last part of the name of its type."""
    calls = f"""
        select split_part(extent_type, '::', -1) as "call", *
        from read_parquet('{table}')
        where extent_type like '%::Syscall::%'
    """
    print("calls that took the most time")
    # A call with several rows has its times in the first row and its result in the last one: count each id once.
    duckdb.sql(f"""
        with calls as ({calls}), each as (
            select call, unique_id, max(time_returned) - min(time_called) as nanoseconds from calls group by all)
        select call, count(*) as calls, sum(nanoseconds) / 1e6 as milliseconds, quantile_cont(nanoseconds, 0.99) / 1e3 as p99_microseconds
        from each group by call order by milliseconds desc nulls last limit 10
    """).show()
    print("what failed")
    duckdb.sql(f"""
        select call, errno_number, count(*) as times, any_value(given_pathname) as for_example
        from ({calls}) where errno_number > 0 group by call, errno_number order by times desc limit 10
    """).show()


def with_pandas(pandas, table):
    """The same table as a data frame."""
    frame = pandas.read_parquet(table)
    frame["call"] = frame["extent_type"].str.rsplit("::", n=1).str[-1]
    frame = frame[frame["time_returned"].notna() & frame["time_called"].notna()]
    frame["milliseconds"] = (frame["time_returned"] - frame["time_called"]) / 1e6
    print("calls that took the most time")
    by_call = frame.groupby("call")["milliseconds"].agg(["count", "sum", "max"])
    print(by_call.sort_values("sum", ascending=False).head(10).to_string())
    print("what failed")
    failed = frame[frame["errno_number"] > 0]
    print(failed.groupby(["call", "errno_number"]).size().sort_values(ascending=False).head(10).to_string())


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    retake = sys.argv[2] if len(sys.argv) > 2 else "retake"
    try:
        import duckdb as engine

        ask = with_duckdb
    except ImportError:
        try:
            import pandas as engine
            import pyarrow  # noqa: F401 (pandas reads Parquet with it)

            ask = with_pandas
        except ImportError:
            print("skipped: neither duckdb nor pandas with pyarrow is installed")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / "trace.parquet"
        command = [retake, "ds", "export", sys.argv[1], "--wide", str(table), "--text", TEXT]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        ask(engine, table)


if __name__ == "__main__":
    main()
