#!/usr/bin/env python3
"""table.py FILE: Markdown tables out of the lines of bench/peers/run and bench/peers/coll.

Each line is `peer path op bytes metric value`. For each path one table: a row for each
measurement, Towline beside the best peer. With FULL=1 in the environment a second one: a row for
each peer. Collectives (op allreduce-n2 and so on) have tables of their own. A ratio at which a peer
is ahead by more than a twentieth is in bold. `--self-test` compares the rows of a few lines with
what they must be.
"""
import contextlib
import io
import os
import statistics
import sys
import tempfile

# op -> the metric that is compared, and whether less is better
METRICS = {"lat": ("p50_us", True), "view": ("p50_us", True), "bw": ("MBps", False),
           "bw_spread": ("MBps", False), "rate": ("Mmsgps", False)}
UNITS = {"p50_us": "us", "MBps": "MB/s", "Mmsgps": "M/s", "cpu_s_per_GiB": "CPU s/GiB"}
BEHIND = 0.95  # a ratio below this is marked; of times, one above its inverse
FLOORS = ("raw", "raw-spin")  # no library at all: shown, not among the peers to beat


def read(name):
    samples = {}
    for line in open(name, encoding="utf-8"):
        fields = line.split()
        if len(fields) != 6:
            continue
        peer, path, op, size, metric, value = fields
        try:
            number = float(value)
        except ValueError:
            continue
        if op == "lat" and metric == "avg_us" and peer.startswith("libfabric"):
            metric = "p50_us"  # fi_pingpong knows the mean alone
        if op == "bw_pingpong":  # one message in flight
            op, metric, number = "lat", "p50_us", int(size) / number
        samples.setdefault((path, op, int(size), metric), {}).setdefault(peer, []).append(number)
    return {key: {peer: statistics.median(v) for peer, v in row.items()}
            for key, row in samples.items()}


def size_name(size):
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def number(value):
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def marked(ratio, less):
    """The ratio's cell; `less`: less is better, as of times."""
    # As it is printed, so that no 0.95 is bold.
    behind = round(ratio, 2) > round(1 / BEHIND, 2) if less else round(ratio, 2) < BEHIND
    return f"**{ratio:.2f}**" if behind else f"{ratio:.2f}"


def best_of(row, less):
    peers = [(v, p) for p, v in row.items() if p != "towline" and p not in FLOORS and v > 0]
    return (min(peers) if less else max(peers)) if peers else None


def collectives(rows, path):
    """Keys of time_us of a path, by operation, ranks and size."""
    keys = [k for k in rows if k[0] == path and k[3] == "time_us" and "-n" in k[1]]
    first = {op: i for i, op in enumerate(dict.fromkeys(k[1] for k in keys))}
    return sorted(keys, key=lambda k: (first[k[1]], k[2]))


def print_collectives(rows, path):
    """Times; the ratio is Towline's to the best peer's. What memory allows, where it is told."""
    print(f"\n**{path}**\n\n| collective | Towline us | best peer us | ratio | "
          "CPU s/GiB, Towline / that peer | of what memory allows |\n|---|---|---|---|---|---|")
    for key in collectives(rows, path):
        row, mine = rows[key], rows[key].get("towline")
        best = best_of(row, True)
        name, ranks = key[1].rsplit("-n", 1)
        cpu = rows.get(key[:3] + ("cpu_s_per_GiB",), {})
        bound = rows.get(key[:3] + ("bound_ratio",), {}).get("towline")
        cells = [f"{name}, {ranks} ranks, {size_name(key[2])}", number(mine) if mine else "-",
                 f"{best[1]} {number(best[0])}" if best else "-",
                 marked(mine / best[0], True) if best and mine else "-",
                 " / ".join(number(cpu[p]) if p in cpu else "-"
                            for p in ("towline", best[1] if best else "")) if cpu else "-",
                 f"{bound:.2f}" if bound else "-"]
        print("| " + " | ".join(cells) + " |")
    if os.environ.get("FULL"):
        peers = sorted({p for k in collectives(rows, path) for p in rows[k]})
        print("\n| us | " + " | ".join(peers) + " |\n" + "|---" * (len(peers) + 1) + "|")
        for key in collectives(rows, path):
            cells = [number(rows[key][p]) if p in rows[key] else "-" for p in peers]
            print(f"| {key[1]} {size_name(key[2])} | " + " | ".join(cells) + " |")


def compared(rows, path):
    """The measurements of a path that are compared, in order."""
    for op, (metric, less) in METRICS.items():
        for key in sorted(k for k in rows if k[0] == path and k[1] == op):
            if key[3] == metric:
                yield key, less
        for key in sorted(k for k in rows if k[0] == path and k[1] == op):
            if key[3] == "cpu_s_per_GiB":
                yield key, True


def floor_of(row):
    values = [v for p, v in row.items() if p in FLOORS]
    return number(values[0] if len(values) == 1 else min(values)) if values else "-"


def tables(name):
    rows = read(name)
    if any(collectives(rows, key[0]) for key in rows):
        for path in dict.fromkeys(key[0] for key in rows):
            print_collectives(rows, path)
        print("\nRatio: Towline's time to the best peer's; less than 1: Towline is faster.")
        return
    for path in dict.fromkeys(key[0] for key in rows):
        print(f"\n**{path}**\n\n| measurement | Towline | best peer | ratio | no library |")
        print("|---|---|---|---|---|")
        for key, less in compared(rows, path):
            row, mine = rows[key], rows[key].get("towline")
            best = best_of(row, less)
            if mine is None:
                continue
            ratio = "-"
            if best:
                ratio = marked(best[0] / mine if less else mine / best[0], False)
            print(f"| {key[1]} {size_name(key[2])}, {UNITS[key[3]]} | {number(mine)} | "
                  f"{best[1] + ' ' + number(best[0]) if best else '-'} | {ratio} | "
                  f"{floor_of(row)} |")
        if os.environ.get("FULL"):
            peers = sorted({p for key in rows if key[0] == path for p in rows[key]})
            keys = [key for key, _ in compared(rows, path)]
            print("\n| peer | " + " | ".join(f"{k[1]} {size_name(k[2])} {UNITS[k[3]]}"
                                              for k in keys) + " |")
            print("|---" * (len(keys) + 1) + "|")
            for peer in peers:
                cells = [number(rows[k][peer]) if peer in rows[k] else "-" for k in keys]
                print(f"| {peer} | " + " | ".join(cells) + " |")
    print("\nRatio: Towline to the best peer; more than 1 means that Towline is better.")



SAMPLES = [  # lines, and rows that they must give
    ("towline shm lat 8 p50_us 1\ntowline shm lat 8 p50_us 3\ntowline shm lat 8 p50_us 9\n"
     "ucx shm lat 8 p50_us 6\nmpich shm lat 8 p50_us 7\nraw shm lat 8 p50_us 0.5\nnonsense\n"
     "towline shm bw 65536 MBps 500\nucx shm bw 65536 MBps 1000\nmpich shm rate 8 Mmsgps 1\n",
     ["| lat 8 B, us | 3 | ucx 6 | 2.00 | 0.5 |",
      "| bw 64 KiB, MB/s | 500 | ucx 1000 | **0.50** | - |"]),
    ("towline shm lat 8 p50_us 100\nucx shm lat 8 p50_us 95\ntowline shm lat 64 p50_us 100\n"
     "ucx shm lat 64 p50_us 94\n",
     ["| lat 8 B, us | 100 | ucx 95 | 0.95 | - |",
      "| lat 64 B, us | 100 | ucx 94 | **0.94** | - |"]),
    ("towline shm bcast-n2 8 time_us 105\nmpich shm bcast-n2 8 time_us 100\n"
     "towline shm bcast-n2 64 time_us 106\nmpich shm bcast-n2 64 time_us 100\n",
     ["| bcast, 2 ranks, 8 B | 105 | mpich 100 | 1.05 | - | - |",
      "| bcast, 2 ranks, 64 B | 106 | mpich 100 | **1.06** | - | - |"]),
    ("towline tcp-lo allreduce-n2 1048576 time_us 50\n"
     "gloo tcp-lo allreduce-n2 1048576 time_us 100\n",
     ["| allreduce, 2 ranks, 1 MiB | 50 | gloo 100 | 0.50 | - | - |"]),
]


def self_test():
    """How many samples give other rows than they must."""
    wrong = 0
    os.environ.pop("FULL", None)
    for lines, expected in SAMPLES:
        out = io.StringIO()
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(lines)
            file.flush()
            with contextlib.redirect_stdout(out):
                tables(file.name)
        heads = ("| measurement", "| collective", "|---")
        rows = [row for row in out.getvalue().splitlines()
                if row.startswith("|") and not row.startswith(heads)]
        if rows != expected:
            wrong += 1
            print(f"these rows:\n{rows}\nshould be:\n{expected}")
    print(f"self-test: {len(SAMPLES)} samples, {wrong} judged wrongly")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    tables(sys.argv[1])
