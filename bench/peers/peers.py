#!/usr/bin/env python3
"""peers.py: runs one peer of Towline's, and prints what it measured.

    peers.py measure BUILD PEER PATH RANKS [OP...]   lines `peer path op bytes metric value`
    peers.py missing BUILD PEER                      what is not there, a line each
    peers.py having PATH PEER...                     which of them have that path
    peers.py --self-test                             what the peers' own tools print is understood

PATH is shm, tcp-lo or tcp-veth, which is between the network namespaces BENCH_NS_A and BENCH_NS_B.
Our programs for the peers lie in BUILD/bench/peers (bench/peers/build). UCX, libfabric and iperf3
bring a tool of their own. Everything is bounded by BENCH_LIMIT seconds [170].
"""
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SERVER_IP, CLIENT_IP, DEVICE = "10.98.0.2", "10.98.0.1", "bv0"
MAY_SLEEP_S = 0.3  # a server needs that long to listen


class Failed(Exception):
    """A peer that could not be measured; the text says why."""


class Peer:
    """What a peer needs, and on which paths it can be measured."""

    def __init__(self, run, package, programs=(), tools=(), paths=("shm", "tcp-lo", "tcp-veth")):
        self.run, self.package, self.paths = run, package, paths
        self.programs, self.tools = programs, tools


def sizes(name, usual):
    return [int(s) for s in os.environ.get(name, usual).split()]


def lat_sizes():
    return sizes("LAT_SIZES", "8 64 1024 4096")


def bw_sizes():
    return sizes("BW_SIZES", "4096 65536 262144 1048576 4194304 16777216")


def limit_s():
    return float(os.environ.get("BENCH_LIMIT", "170"))


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def namespace(path, side):
    """What is put before a command that runs on side A (the client) or B (the server)."""
    if path != "tcp-veth":
        return []
    return ["ip", "netns", "exec", os.environ[f"BENCH_NS_{side}"]]


def on_cpu(cpu):
    """Before a tool that cannot pin itself."""
    return [] if os.environ.get("BENCH_UNPINNED") else ["taskset", "-c", str(cpu)]


def address(path):
    return SERVER_IP if path == "tcp-veth" else "127.0.0.1"


def device(path):
    return DEVICE if path == "tcp-veth" else "lo"


def stop(process):
    """Ends a process and what it has started; it may have ended by itself."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def capture(command, **more):
    """The output of a command, which must succeed in time; with it ends all that it has started."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True, **more)
    try:
        out, err = process.communicate(timeout=limit_s())
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"{shlex.join(command)}: not done in {limit_s():.0f} s") from None
    if process.returncode != 0:
        said = (err.strip() or out.strip() or "it said nothing").splitlines()[-1]
        raise Failed(f"{shlex.join(command)}: exit code {process.returncode}: {said}")
    return out


def pair(path, server, client, env=None):
    """The client's output, while the server runs."""
    env = {**os.environ, **(env or {})}
    process = subprocess.Popen(namespace(path, "B") + server, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        time.sleep(MAY_SLEEP_S)
        return capture(namespace(path, "A") + client, env=env)
    finally:
        stop(process)


def line(peer, path, op, size, metric, value):
    return f"{peer} {path} {op} {size} {metric} {value:.6g}"


# What the peers' own tools print.


def parse_ucx(text):
    """The last line of ucx_perftest -f, whose MB is 2^20 bytes: median us, MB/s, millions/s."""
    words = (text.strip().splitlines() or [""])[-1].split()
    if len(words) != 8:
        raise Failed(f"ucx_perftest has printed {text.strip()[-200:]!r}")
    try:
        number = [float(w) for w in words]
    except ValueError:
        raise Failed(f"ucx_perftest has printed {' '.join(words)!r}") from None
    return {"p50_us": number[1], "avg_us": number[2], "MBps": number[5] * 1.048576,
            "Mmsgps": number[7] / 1e6}


def parse_pingpong(text):
    """The last line of fi_pingpong: bytes, sent, answered, total, time, MB/s, us, millions/s."""
    words = (text.strip().splitlines() or [""])[-1].split()
    try:
        return {"avg_us": float(words[6]), "MBps": float(words[5])}
    except (IndexError, ValueError):
        raise Failed(f"fi_pingpong has printed {text.strip()[-200:]!r}") from None


def parse_iperf3(text):
    """The JSON of iperf3: what the receiver got, and the processor time of both."""
    try:
        end = json.loads(text)["end"]
        bytes_s = end["sum_received"]["bits_per_second"] / 8
        used = end["cpu_utilization_percent"]
        cpu = (used["host_total"] + used["remote_total"]) / 100
        return {"MBps": bytes_s / 1e6, "cpu_s_per_GiB": cpu / (bytes_s / 2**30)}
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as wrong:
        raise Failed(f"no result of iperf3: {wrong!r} in {text.strip()[-200:]!r}") from None


def own_lines(text):
    """The lines of one of our programs; anything else on its output is a fault."""
    lines = text.splitlines()
    for one in lines:
        words = one.split()
        try:
            if len(words) == 6 and int(words[3]) >= 0 and float(words[5]) >= 0:
                continue
        except ValueError:
            pass
        raise Failed(f"a line of a measurement should be here, not {one[:200]!r}")
    if not lines:
        raise Failed("nothing has been printed")
    return lines


# How each peer is run.


def names(peer, path, **more):
    return {"BENCH_PEER": peer, "BENCH_PATH": path, **more}


def run_messages(build, peer, path, _ranks, ops):
    """Raw sockets and shared memory, ZeroMQ, nng: one exchange, different sends and receives."""
    program = os.path.join(build, PEERS[peer].programs[0])
    env = names(peer, path, RAW_SPIN="1" if peer == "raw-spin" else "0")
    if path == "shm":
        return own_lines(capture([program, "shm", *ops], env={**os.environ, **env}))
    url = f"{address(path)}:{free_port()}"
    url = ("tcp:" if peer.startswith("raw") else "tcp://") + url
    return own_lines(pair(path, [program, "server", url], [program, "client", url, *ops], env))


def run_grpc(build, peer, path, _ranks, ops):
    """Where others have shared memory, gRPC has a unix socket."""
    program = os.path.join(build, PEERS[peer].programs[0])
    kind = "unary" if peer == "grpc-unary" else "stream"
    with tempfile.TemporaryDirectory() as folder:
        at = f"{address(path)}:{free_port()}" if path != "shm" else f"unix:{folder}/s"
        return own_lines(pair(path, [program, "server", at], [program, "client", at, kind, *ops],
                              names(peer, path)))


def run_gloo(build, peer, path, ranks, ops):
    """A process for each rank; on tcp-veth rank 0 is on the client's side."""
    program = os.path.join(build, PEERS[peer].programs[0])
    env, started = {**os.environ, **names(peer, path)}, []
    with tempfile.TemporaryDirectory() as folder:
        def command(rank):
            return (namespace(path, "A" if rank == 0 else "B") +
                    [program, str(rank), str(ranks), folder, device(path), *ops])
        try:
            for rank in range(1, ranks):
                started.append(subprocess.Popen(
                    command(rank), env=env, stdin=subprocess.DEVNULL, start_new_session=True,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            return own_lines(capture(command(0), env=env))
        finally:
            for process in started:
                stop(process)


def run_openmpi(build, peer, path, ranks, ops):
    program = os.path.join(build, PEERS[peer].programs[0])
    env = {**os.environ, **names(peer, path, OMPI_ALLOW_RUN_AS_ROOT="1",
                                 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", UCX_TLS="sm,self")}
    command = ["mpirun.openmpi", "--bind-to", "none"]
    for name in env:  # the other daemon of tcp-veth knows no variable but these
        command += ["-x", name] if name.startswith("BENCH_") else []
    if peer == "openmpi-ucx":
        command += ["-x", "UCX_TLS", "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca",
                    "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any"]
    else:
        command += ["--mca", "pml", "ob1", "--mca", "btl",
                    "vader,self" if path == "shm" else "tcp,self"]
        if path != "shm":
            command += ["--mca", "btl_tcp_if_include", device(path)]
    if path == "tcp-veth":  # a daemon in each namespace, as on two hosts; we stand in for ssh
        agent = f"{sys.executable} {os.path.abspath(__file__)} agent"
        command += ["--host", f"{CLIENT_IP}:1,{SERVER_IP}:1", "--mca", "plm_rsh_agent", agent,
                    "--mca", "oob_tcp_if_include", DEVICE]
    else:
        command += ["--oversubscribe"]
    return own_lines(capture(namespace(path, "A") + command + ["-np", str(ranks), program, *ops],
                             env=env))


def run_mpich(build, peer, path, ranks, ops):
    program = os.path.join(build, PEERS[peer].programs[0])
    env = {**os.environ, **names(peer, path, UCX_WARN_UNUSED_ENV_VARS="n")}
    if path != "shm":
        env.update(UCX_TLS="tcp,self", UCX_NET_DEVICES=device(path), MPIR_CVAR_NOLOCAL="1")
    command = ["mpirun.mpich", "-np", str(ranks), program, *ops]
    if path == "tcp-veth":
        command = ["mpirun.mpich", "-np", "1", *namespace(path, "A"), program, *ops,
                   ":", "-np", "1", *namespace(path, "B"), program, *ops]
    return own_lines(capture(command, env=env))


def ucx_test(path, test, size, count):
    tool = os.environ.get("UCX_PERFTEST", "ucx_perftest")
    env = {"UCX_WARN_UNUSED_ENV_VARS": "n", "UCX_LOG_LEVEL": "error", "UCX_TLS": "sm,self"}
    if path != "shm":
        env.update(UCX_TLS="tcp,self", UCX_NET_DEVICES=device(path))
    port = str(free_port())
    client = [tool, address(path), "-p", port, "-t", test, "-s", str(size), "-n", str(count), "-w",
              str(count // 10 + 1), "-R", "50.0", "-f"]
    return parse_ucx(pair(path, on_cpu(1) + [tool, "-p", port], on_cpu(0) + client, env))


def run_ucx(_build, peer, path, _ranks, ops):
    """Tags, one buffer again and again: bw_spread is not to be had."""
    lines, volume = [], int(os.environ.get("BENCH_VOLUME_MIB", "384")) << 20
    for size in lat_sizes() if "lat" in ops else []:
        got = ucx_test(path, "tag_lat", size, int(os.environ.get("BENCH_LAT_ITERS", "10000")))
        lines += [line(peer, path, "lat", size, m, got[m]) for m in ("p50_us", "avg_us")]
    for size in bw_sizes() if "bw" in ops else []:
        got = ucx_test(path, "tag_bw", size, max(1, min(volume // size, 100000)))
        lines.append(line(peer, path, "bw", size, "MBps", got["MBps"]))
    if "rate" in ops:
        got = ucx_test(path, "tag_bw", 8, 300000)
        lines.append(line(peer, path, "rate", 8, "Mmsgps", got["Mmsgps"]))
    return lines


def run_iperf3(_build, _peer, path, _ranks, ops):
    """One stream of writes of at most 1 MiB."""
    lines, control = [], os.environ.get("IPERF_CONTROL", "cubic")
    for size in bw_sizes() if "bw" in ops else []:
        if size > 1 << 20:
            continue
        port = str(free_port())
        client = ["iperf3", "-c", address(path), "-p", port, "-t", "1", "-l", str(size), "-J", "-C",
                  control]
        got = parse_iperf3(pair(path, on_cpu(1) + ["iperf3", "-s", "-1", "-p", port],
                                on_cpu(0) + client))
        lines += [line("iperf3-" + control, path, "bw", size, m, v) for m, v in got.items()]
    return lines


def run_libfabric(_build, peer, path, _ranks, ops):
    """fi_pingpong: one message in flight, its mean time, and no other bandwidth."""
    provider = "shm" if path in ("shm", "ofi-shm") else "tcp;ofi_rxm"
    tool = os.environ.get("FI_PINGPONG", "fi_pingpong")
    env, lines = {"FI_LOG_LEVEL": "error"}, []
    if provider != "shm":
        env["FI_TCP_IFACE"] = device(path)  # else it may listen where the other one cannot reach
    wanted = [(s, "lat") for s in lat_sizes() if "lat" in ops]
    wanted += [(s, "bw_pingpong") for s in bw_sizes() if "bw" in ops]
    for size, op in wanted:
        port = str(free_port())
        count = 10000 if op == "lat" else max(1, min((256 << 20) // size, 10000))
        usual = [tool, "-p", provider, "-e", "rdm", "-I", str(count), "-S", str(size)]
        got = parse_pingpong(pair(path, on_cpu(1) + usual + ["-B", port],
                                  on_cpu(0) + usual + ["-P", port, address(path)], env))
        metric = "avg_us" if op == "lat" else "MBps"
        lines.append(line(f"{peer}:{provider.replace(';', '+')}", path, op, size, metric,
                          got[metric]))
    return lines


def own(name):
    return os.path.join("bench", "peers", "peer-" + name)


TCP = ("tcp-lo", "tcp-veth")
PEERS = {
    "openmpi": Peer(run_openmpi, "openmpi-bin", [own("mpi.openmpi")], ["mpirun.openmpi"]),
    "openmpi-ucx": Peer(run_openmpi, "openmpi-bin", [own("mpi.openmpi")], ["mpirun.openmpi"],
                        ("shm",)),
    "mpich": Peer(run_mpich, "mpich", [own("mpi.mpich")], ["mpirun.mpich"]),
    "ucx": Peer(run_ucx, "ucx-utils", tools=["ucx_perftest"]),
    "gloo": Peer(run_gloo, "libgloo-dev", [own("gloo")], paths=TCP),
    "zmq": Peer(run_messages, "libzmq3-dev", [own("zmq")], paths=TCP),
    "nng": Peer(run_messages, "libnng-dev", [own("nng")], paths=TCP),
    "grpc": Peer(run_grpc, "libgrpc++-dev", [own("grpc")]),
    "grpc-unary": Peer(run_grpc, "libgrpc++-dev", [own("grpc")]),
    "iperf3": Peer(run_iperf3, "iperf3", tools=["iperf3"], paths=TCP),
    "libfabric": Peer(run_libfabric, "libfabric-bin", tools=["fi_pingpong"],
                      paths=("shm", "tcp-lo", "tcp-veth", "ofi-shm", "ofi-tcp")),
    "raw": Peer(run_messages, "", [own("raw")]),
    "raw-spin": Peer(run_messages, "", [own("raw")], paths=TCP),
}


def missing(build, peer):
    """What is not there, each with what brings it."""
    row, lacks = PEERS[peer], []
    for tool in row.tools:
        if shutil.which(tool) is None:
            lacks.append(f"{tool} (Debian: {row.package})")
    for program in row.programs:
        if not os.access(os.path.join(build, program), os.X_OK):
            lacks.append(f"{os.path.basename(program)} (bench/peers/build)")
    return lacks


def measure(build, peer, path, ranks, ops):
    row = PEERS.get(peer)
    if row is None:
        raise Failed(f"there is no peer '{peer}'; there are {', '.join(PEERS)}")
    if path not in row.paths:
        raise Failed(f"{peer} has no path '{path}'; it has {', '.join(row.paths)}")
    if not ranks.isdigit() or not 2 <= int(ranks) <= 64:
        raise Failed(f"the number of ranks is from 2 to 64, not '{ranks}'")
    if path == "tcp-veth" and not {"BENCH_NS_A", "BENCH_NS_B"} <= set(os.environ):
        raise Failed("tcp-veth needs two namespaces in BENCH_NS_A and BENCH_NS_B")
    return row.run(build, peer, path, int(ranks), ops or ["lat", "bw", "bw_spread", "rate"])


UCX_TEXT = """+--------------+--------------+----------+---------+---------+----------+----------+
         500      6.492  7.076  8.041        500.00      1000.00         511  3000000
"""
IPERF3_TEXT = """{"start": {}, "end": {"sum_received": {"bits_per_second": 8589934592.0},
 "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 25.0}}}"""
PINGPONG_TEXT = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      100     =100     12k         1.40s      9.17    6.97       0.14
"""
SAMPLES = [  # who reads it, the text, and what it must find; None: it must say that it is none
    (parse_ucx, UCX_TEXT,
     {"p50_us": 6.492, "avg_us": 7.076, "MBps": 1048.576, "Mmsgps": 3.0}),
    (parse_ucx, "", None),
    (parse_ucx, "[1]  ucp_context.c  ERROR no transports that can be used at all\n", None),
    (parse_iperf3, IPERF3_TEXT, {"MBps": 1073.741824, "cpu_s_per_GiB": 0.75}),
    (parse_iperf3, '{"error": "unable to connect"}', None),
    (parse_iperf3, IPERF3_TEXT.replace("8589934592.0", "0"), None),
    (parse_iperf3, "iperf3: error", None),
    (parse_pingpong, PINGPONG_TEXT, {"avg_us": 6.97, "MBps": 9.17}),
    (parse_pingpong, "bytes   #sent   #ack     total       time     MB/sec    usec/xfer\n", None),
    (own_lines, "raw shm lat 8 p50_us 0.1\n", ["raw shm lat 8 p50_us 0.1"]),
    (own_lines, "raw shm lat 8 p50_us 0.1\nraw shm lat eight p50_us 0.1\n", None),
    (own_lines, "", None),
]


def self_test():
    wrong = 0
    for reader, text, expected in SAMPLES:
        try:
            got = reader(text)
        except Failed:
            got = None
        if got != expected:
            wrong += 1
            print(f"{reader.__name__} found {got} in {text!r}; it should find {expected}")
    print(f"self-test: {len(SAMPLES)} samples, {wrong} read wrongly")
    return 1 if wrong else 0


def main():
    words = sys.argv[1:]
    if words == ["--self-test"]:
        return self_test()
    if words[:1] == ["agent"] and len(words) > 2:  # agent HOST COMMAND...: in place of ssh
        command = namespace("tcp-veth", "B") + ["bash", "-c", " ".join(words[2:])]
        os.execvp(command[0], command)
    if words[:1] == ["missing"] and len(words) == 3 and words[2] in PEERS:
        for lack in missing(words[1], words[2]):
            print(lack)
        return 0
    if words[:1] == ["having"] and len(words) > 1:
        # A name that is none stays, so that measuring it says so.
        print("\n".join(p for p in words[2:] if p not in PEERS or words[1] in PEERS[p].paths))
        return 0
    if words[:1] != ["measure"] or len(words) < 5:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print("\n".join(measure(*words[1:5], words[5:])))
    except (Failed, OSError, ValueError) as wrong:
        print(f"peers.py: {words[2]} on {words[3]}: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
