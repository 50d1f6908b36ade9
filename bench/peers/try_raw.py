#!/usr/bin/env python3
"""try_raw.py PEER-RAW: the program without a library measures what it is asked, and only that.

With it, what all programs of bench/peers share is tried: settings, orders, and lines.
"""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
LATENCY, STREAM = {"p50_us", "p99_us", "avg_us"}, {"MBps", "cpu_s_per_GiB"}
# 100000 and 3 MiB divide neither a slot nor the memory that is walked over.
SETTINGS = {"BENCH_PEER": "floor", "BENCH_PATH": "way", "BENCH_UNPINNED": "1",
            "BENCH_LAT_ITERS": "20", "BENCH_VOLUME_MIB": "4", "BENCH_SIZES_lat": "1,100000",
            "BENCH_SIZES_bw": "4K,3M"}
# As exchange.c has it: magic, kind (0 quit, 1 echo, 2 stream), bytes, count, slots, nothing.
ORDER, MAGIC = "=IIQQII", 0x746f7772
failures = []


def expect(good, what):
    if not good:
        failures.append(what)
        print("wrong:", what)


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BENCH_")}
    return {**kept, **SETTINGS, **more}


def run(*words, **more):
    return subprocess.run([PROGRAM, *words], env=environment(**more), capture_output=True,
                          text=True, timeout=60, check=False)


def wanted(ops):
    keys = {("lat", s, m) for s in (1, 100000) for m in LATENCY if "lat" in ops}
    keys |= {(op, s, m) for op in ("bw", "bw_spread") for s in (4096, 3 << 20) for m in STREAM
             if op in ops}
    return keys | ({("rate", 8, "Mmsgps")} if "rate" in ops else set())


def check_lines(text, ops, what):
    rows = {}
    for line in text.splitlines():
        peer, path, op, size, metric, value = line.split()
        expect((peer, path) == ("floor", "way"), f"{what}: names in {line}")
        expect((op, int(size), metric) not in rows, f"{what}: twice: {line}")
        rows[op, int(size), metric] = float(value)
    expect(set(rows) == wanted(ops), f"{what}: {set(rows) ^ wanted(ops)}")
    for (op, size, metric), value in rows.items():
        expect(value > 0 or metric == "cpu_s_per_GiB", f"{what}: {op} {size} {metric} {value}")
        if metric == "p50_us":
            expect(value <= rows[op, size, "p99_us"], f"{what}: the median is above 99 %")


def try_pair(url, ops, asked, what, **more):
    server = subprocess.Popen([PROGRAM, "server", url], env=environment(**more),
                              stderr=subprocess.PIPE, text=True)
    done = run("client", url, *asked, **more)
    expect(done.returncode == 0, f"{what}: {done.stderr}")
    check_lines(done.stdout, ops, what)
    try:
        said = server.communicate(timeout=20)[1]
        expect(server.returncode == 0, f"{what}: the server: {said}")
    except subprocess.TimeoutExpired:
        server.kill()
        expect(False, f"{what}: the server has not ended with its client")


def try_foreign_order(folder, order, says):
    """A server that receives an invalid order reports it, and ends."""
    path = os.path.join(folder, "foreign")
    server = subprocess.Popen([PROGRAM, "server", "unix:" + path], env=environment(),
                              stderr=subprocess.PIPE, text=True)
    sock = socket.socket(socket.AF_UNIX)
    for _ in range(500):
        try:
            sock.connect(path)
            break
        except OSError:
            time.sleep(0.02)
    sock.sendall(struct.pack(ORDER, *order))
    try:
        said = server.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        server.kill()
        said = server.communicate()[1]
    expect(server.returncode == 1 and says in said, f"order {order}: {said}")
    sock.close()


def try_mistakes():
    for words, more, status, says in (
            (["shm", "lat", "latency"], {}, 2, "'latency'"),
            (["shm", "allreduce"], {}, 2, "'allreduce'"),
            (["shm"], {"BENCH_SIZES_lat": "8,many"}, 2, "BENCH_SIZES_lat is '8,many'"),
            (["shm"], {"BENCH_SIZES_bw": "0"}, 2, "BENCH_SIZES_bw"),
            (["shm"], {"BENCH_LAT_ITERS": "1e9"}, 2, "BENCH_LAT_ITERS"),
            (["shm"], {"BENCH_VOLUME_MIB": "nan"}, 2, "BENCH_VOLUME_MIB"),
            (["client", "tcp:127.0.0.1:0"], {}, 2, "tcp:127.0.0.1:0"),
            (["client", "tcp:nowhere:80"], {}, 2, "tcp:nowhere:80"),
            (["server", "unix:" + "x" * 200], {}, 2, "unix:xx"),
            ([], {}, 2, "usage")):
        done = run(*words, **more)
        expect(done.returncode == status and says in done.stderr and not done.stdout,
               f"{words} {more}: exit code {done.returncode}, {done.stderr!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        done = run("shm", "lat", "bw", "bw_spread")
        expect(done.returncode == 0, f"shm: {done.stderr}")
        check_lines(done.stdout, ("lat", "bw", "bw_spread"), "shm")
        try_pair(f"unix:{folder}/a", ("lat", "bw", "bw_spread", "rate"), [], "unix")
        try_pair(f"unix:{folder}/b", ("lat",), ["lat"], "unix, one operation")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        try_pair(f"tcp:127.0.0.1:{port}", ("bw", "lat"), ["lat", "bw"], "tcp, spinning",
                 RAW_SPIN="1")
        for order, says in (((0, 0, 8, 1, 1, 0), "not an order"),
                            ((MAGIC, 9, 8, 1, 1, 0), "not an order"),
                            ((MAGIC, 1, 1 << 60, 1, 1, 0), "bytes of memory"),
                            ((MAGIC, 2, 4096, 1, 1 << 20, 0), "bytes of memory")):
            try_foreign_order(folder, order, says)
    try_mistakes()
    print(f"try_raw: {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
