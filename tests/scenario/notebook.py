"""notebook.py - what a capture says of latencies, sizes and pairs is what /v1/latency counted.

  notebook.py [--tell] BUILD FOLDER LANE...      --tell prints all figures

Two ranks of latency_program exchange messages over each lane while towtrace captures them. The
file is then read as MegaScale's network analysis notebook reads it (jax.profiler.ProfileData), and
compared with what both ranks' /v1/latency has counted meanwhile: number, bytes, mean and median of
each pair and size class. Where TOW_TEST_NOTEBOOK names that notebook (network_analysis_oss.ipynb of
XLA's megascale/tools) its own cells are run on the same files, and their tables compared alike.

Exit 0: all agree; 77: a tool is not here, with the reason; 1: something does not agree.
"""
import collections
import glob
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

RECEIVE = "MegaScale: Communication Transport Receive"
PATIENCE_S = 30  # of every wait here
CLASSES = (64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def expect(truth, what):
    if not truth:
        print(f"does not agree: {what}")
        sys.exit(1)


# --- a job, captured ---

def get(path, document):
    connection = http.client.HTTPConnection("towline", timeout=PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(PATIENCE_S)
    connection.sock.connect(path)
    connection.request("GET", document)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def until(ready, job, what):
    """Waits for a truth, and not for ever."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up and job.poll() is None:
        value = ready()
        if value:
            return value
        time.sleep(0.005)
    raise TimeoutError(what)


def latencies(sockets):
    return [get(path, "/v1/latency")["rpcs"] for path in sockets]


def settled(sockets):
    """When the last acknowledgement is there: nothing has changed in ten readings."""
    last, same = None, 0
    give_up = time.monotonic() + PATIENCE_S
    while same < 10:
        rows = latencies(sockets)
        same = same + 1 if rows == last else 0
        last = rows
        if time.monotonic() > give_up:
            raise TimeoutError("the counts of /v1/latency do not settle")
        time.sleep(0.01)
    return last


def touch(folder, name):
    with open(os.path.join(folder, name), "w", encoding="ascii"):
        pass


def capture(build, folder, lane, seconds, program, read):
    """The file of both ranks, and what `read` says before and after; None: it was too short."""
    os.makedirs(os.path.join(folder, "s"))
    environment = dict(os.environ, TOW_JOB=f"job-{lane}", TOW_LANES=lane,
                       TOW_STATS_DIR=os.path.join(folder, "s"))
    there = [os.path.join(folder, f"{{}}.{rank}") for rank in (0, 1)]
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        job = subprocess.Popen(
            [f"{build}/tools/towrun/towrun", "-n", "2", "--timeout", "100", "--",
             f"{build}/tests/{program}", folder],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    taking = None
    try:
        until(lambda: all(os.path.exists(path.format("ready")) for path in there), job, "two ranks")
        sockets = sorted(glob.glob(os.path.join(folder, "s", f"job-{lane}.*.sock")))
        expect(len(sockets) == 2, f"sockets: {sockets}")
        before = read(sockets)
        taking = subprocess.Popen(
            [f"{build}/tools/towtrace/towtrace", "capture", "--seconds", str(seconds), *sockets,
             "--logdir", os.path.join(folder, "log.d"), "--run", "run"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: all(get(path, "/v1/info")["captures"] > 0 for path in sockets), job,
              "captures")
        touch(folder, "go")
        until(lambda: all(os.path.exists(path.format("done")) for path in there), job, "messages")
        after = read(sockets)
        whole = all(get(path, "/v1/info")["captures"] > 0 for path in sockets)
        text, _ = taking.communicate(timeout=PATIENCE_S)
        expect(taking.returncode == 0, text)
        touch(folder, "leave")
        status = job.wait(PATIENCE_S)
        with open(os.path.join(folder, "log"), encoding="utf-8") as log:
            expect(status == 0, f"the job: {log.read()}")
    finally:
        for process in (taking, job):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    path, = glob.glob(os.path.join(folder, "log.d", "plugins", "profile", "run", "*.xplane.pb"))
    return (path, before, after) if whole else None


def capture_whole(build, folder, lane, program="latency_program", read=settled):
    """A loaded machine may need longer for the messages than the capture lasts."""
    for seconds in (1, 4, 16):
        got = capture(build, os.path.join(folder, f"{lane}-{seconds}"), lane, seconds, program,
                      read)
        if got is not None:
            return got
    raise TimeoutError(f"{lane}: the messages took longer than any capture")


# --- what /v1/latency counted ---

def by_class(rows):
    """{(lane, largest size, rank): (count, received, bytes, sum of ns, {upper edge: count})}"""
    out = {}
    for row in rows:
        for peer in row["peers"]:
            out[row["lane"], row["bytes_max"], peer["rank"]] = (
                peer["count"], peer["received"], peer["bytes"], peer["mean"] * peer["count"],
                dict(peer["buckets"]))
    return out


def counted(before, after):
    """{(from, to, largest size): [count, bytes, sum of ns, {upper edge: count}]} since before."""
    pairs = {}
    for rank, (first, last) in enumerate(zip(before, after)):
        first = by_class(first)
        for key, row in by_class(last).items():
            old = first.get(key, (0, 0, 0, 0, {}))
            count, received, size, total = (row[i] - old[i] for i in range(4))
            if count == 0:
                continue
            _, largest, peer = key
            expect(peer is not None, f"rank {rank}: a peer without a rank: {key}")
            expect(received in (0, count), f"rank {rank}: {key} has messages of both ways")
            pair = (peer, rank, largest) if received else (rank, peer, largest)
            expect(pair not in pairs, f"both sides count {pair}")
            pairs[pair] = [count, size, total, {edge: n - old[4].get(edge, 0)
                                                for edge, n in row[4].items()}]
    return pairs


def median_bucket(buckets, count):
    """The lower and upper edge of where the median is: 16 steps for each power of two."""
    seen = 0
    for edge, n in sorted(buckets.items()):
        seen += n
        if seen >= (count + 1) // 2:
            width = max(1, 1 << max(0, edge.bit_length() - 5))
            return edge - width + 1, edge
    return None


# --- what the file says ---

def read_file(path):
    """As the notebook reads it: [(source, destination, bytes, us, ns or None)]"""
    from jax.profiler import ProfileData
    rows = []
    for line in ProfileData.from_file(path).find_plane_with_name("/host:CPU").lines:
        if not line.name.startswith("MegascaleEM2_Worker"):
            continue
        for event in line.events:
            if event.name == RECEIVE:
                stats = dict(event.stats)
                ends = [f"{stats[f'dcn_{end}_slice_id']}-{stats[f'dcn_{end}_per_slice_device_id']}"
                        for end in ("source", "destination")]
                rows.append((*ends, stats["payload_size_bytes"], stats["duration_us"],
                             stats.get("tow_latency_ns")))
    return rows


def class_of(size):
    return next((edge for edge in CLASSES if size <= edge), None)


def compare(rows, wanted, what, ns_per_unit):
    """rows: (source, destination, bytes, how long). A unit of time may be rounded by half."""
    found = collections.defaultdict(list)
    for source, destination, size, took in rows:
        found[source, destination, class_of(size)].append((took, size))
    keys = {(f"{source}-{source}", f"{to}-{to}", edge): value
            for (source, to, edge), value in wanted.items()}
    expect(found.keys() == keys.keys(), f"{what}: pairs {sorted(found)} and {sorted(keys)}")
    half = 0 if ns_per_unit == 1 else ns_per_unit / 2
    for key, (count, size, total, buckets) in sorted(keys.items()):
        took = sorted(row[0] * ns_per_unit for row in found[key])
        expect(len(took) == count, f"{what}: {key}: {len(took)} transfers, {count} counted")
        moved = sum(row[1] for row in found[key])
        expect(moved == size, f"{what}: {key}: {moved} bytes, {size} counted")
        mean, ours = sum(took) / count, total / count
        # None takes no time: what is less than a unit is one.
        least = ns_per_unit if ns_per_unit > 1 else 0
        expect(abs(mean - ours) <= max(0.01 * ours, half) or mean <= least,
               f"{what}: {key}: mean {mean} ns, {ours} counted")
        low, high = median_bucket(buckets, count)
        median = took[(count + 1) // 2 - 1]
        expect(low - half <= median <= high + half or median <= least,
               f"{what}: {key}: median {median} ns, {low} to {high} counted")
        yield key, count, size, mean, ours, median, (low, high)


def check(rows, wanted, what):
    expect(all(row[4] is not None for row in rows), f"{what}: a receive without its sender's word")
    compared = list(compare([(*row[:3], row[4]) for row in rows], wanted, what, 1))
    print(f"{what}: {len(rows)} transfers in {len(compared)} pairs and size classes are as counted")
    for key, count, size, mean, ours, median, (low, high) in compared if TELL else ():
        print(f"{what} {key[0]} -> {key[1]} up to {key[2]}: {count} transfers, {size} bytes, mean "
              f"{mean:.0f} and {ours:.0f} ns, median {median} in {low}..{high}")
    for _ in compare([row[:4] for row in rows], wanted, what + " in us", 1000):
        pass


# --- the notebook itself ---

def run_notebook(path, files, labels, folder):
    """Its cells as they are, but for what it says is to be filled in. Returns its tables."""
    try:
        import matplotlib
        import pandas  # noqa: F401
        from IPython import display
    except ImportError as error:
        print(f"the notebook was not run: {error}")
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    shown = []

    def show():
        shown.append(os.path.join(folder, f"notebook-{len(shown)}.png"))
        plt.savefig(shown[-1])
        plt.close("all")

    tables = []
    plt.show, display.display = show, tables.append
    with open(path, encoding="utf-8") as file:
        cells = ["".join(cell["source"]) for cell in json.load(file)["cells"]
                 if cell["cell_type"] == "code"]
    world = {"__name__": "notebook"}
    for cell in cells:
        if "pip install" in cell:
            continue
        cell = re.sub(r"(?m)^profile_paths = '.*", lambda _: f"profile_paths = {','.join(files)!r}",
                      cell)
        cell = re.sub(r"(?m)^labels = '.*", lambda _: f"labels = {','.join(labels)!r}", cell)
        exec(compile(cell, cell.partition("\n")[0], "exec"), world)  # pylint: disable=exec-used
    expect(len(shown) == 3 * len(files), f"the notebook drew {len(shown)} plots")
    expect(len(tables) == 1 + len(files), f"the notebook showed {len(tables)} tables")
    expect(all(os.path.getsize(name) > 1000 for name in shown), "a plot is empty")
    print(f"the notebook drew {len(shown)} plots; sizes:\n{tables[0]}")
    return world["dfs"]


def main(build, folder, lanes):
    try:
        from jax.profiler import ProfileData
        ProfileData.find_plane_with_name  # pylint: disable=pointless-statement
    except (ImportError, AttributeError) as error:
        skip(f"no jax.profiler.ProfileData: {error}")
    got, failed = {}, []

    def work(lane):
        try:
            got[lane] = capture_whole(build, folder, lane)
        except (OSError, TimeoutError, SystemExit, subprocess.SubprocessError) as error:
            failed.append(f"{lane}: {error!r}")
    workers = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expect(not failed, failed)
    wanted = {lane: counted(*got[lane][1:]) for lane in lanes}
    rows = {lane: read_file(got[lane][0]) for lane in lanes}
    for lane in lanes:
        check(rows[lane], wanted[lane], lane)
    notebook = os.environ.get("TOW_TEST_NOTEBOOK")
    if not notebook:
        print("the notebook was not run: TOW_TEST_NOTEBOOK names none")
        return
    tables = run_notebook(notebook, [got[lane][0] for lane in lanes], lanes, folder)
    for lane, table in zip(lanes, tables or []):
        its = list(zip(table["src"], table["dst"], table["bytes"], table["latency_us"]))
        expect(its == [row[:4] for row in rows[lane]], f"{lane}: the notebook reads otherwise")
        compared = list(compare(its, wanted[lane], f"the notebook's {lane}", 1000))
        print(f"the notebook's {len(its)} transfers over {lane} are those of /v1/latency, in "
              f"{len(compared)} pairs and size classes")


TELL = sys.argv[1:2] == ["--tell"]
if TELL:
    del sys.argv[1]
if __name__ == "__main__":
    main(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:])
    print("all agree")
