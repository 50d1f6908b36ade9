"""test_scheduler.py - XLA's own GPU compiler over profiles that towtrace wrote
(docs/scheduler-profile.md). It compiles for GPUs that are not there, and nothing is run on one.
"""
import json
import os
import re
import struct
import subprocess
import tempfile

import ranks

PROGRAM = os.path.join(ranks.SOURCE, "tests/runtimes/scheduler_program.py")
TOW_COLL = ranks.built("bench/tow-coll")
TOWTRACE = ranks.built("tools/towtrace/towtrace")
RANKS = 4
SIZES = (65536, 1048576)
# tow-coll's name, and how much larger than its size the larger side is.
KINDS = {"all-reduce": ("allreduce", 1), "all-gather": ("allgather", RANKS),
         "reduce-scatter": ("reduce_scatter", RANKS), "all-to-all": ("alltoall", 1),
         "permute": ("permute", 1)}
TABLE = "xla_gpu_experimental_collective_perf_table_path"
COSTS = "xla_gpu_pgle_profile_file_or_directory_path"


def command(*words, wanted=0):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                          check=False)
    text = done.stdout.decode(errors="replace")
    ranks.expect(done.returncode == wanted, f"{' '.join(words[:2])} ends well", text)
    return text


def compiled(options, *cases):
    """What XLA says while it compiles, by case."""
    env = {**os.environ, **ranks.compiled_once("scheduler"), "JAX_PLATFORMS": "cpu",
           "TF_CPP_MIN_LOG_LEVEL": "0",
           "TF_CPP_VMODULE": "profile_guided_latency_estimator=10,sol_latency_estimator=10,"
                             "gpu_hlo_schedule=10"}
    done = subprocess.run([PYTHON, PROGRAM, json.dumps(options), *cases], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                          check=False)
    text = done.stdout.decode(errors="replace")
    ranks.expect(done.returncode == 0, f"XLA compiles {cases}", text)
    parts = [part.partition("\n") for part in text.split("== ")[1:]]
    return {case: said for case, _, said in parts if case in cases}


def times_said(text):
    """Microseconds that XLA reckons for the program's collective."""
    found = re.findall(r"Computed collective time for \S+: ([\d.e+]+) us", text)
    return {float(us) for us in found}


def near(one, other):
    return abs(one - other) <= 0.001 * max(one, other)


def table(folder):
    """Each collective's time is what was measured, and without the table another one."""
    profile, out = f"{folder}/bench.json", f"{folder}/bench.pb"
    command(TOW_COLL, "--ranks", str(RANKS), "--lane", "shm", "--no-pin", "--seconds", "0.05",
            "--op", ",".join(name for name, _ in KINDS.values()),
            "--sizes", ",".join(map(str, SIZES)), "--profile", profile)
    command(TOWTRACE, "profile", profile, "-f", "xla-table", "--device", "sm_90", "-o", out)
    with open(profile, encoding="utf-8") as file:
        rows = {(row["kind"], row["bytes"]): row["moving_us"]["median"]
                for row in json.load(file)["collectives"]}
    cases = {}
    for kind, (_, times) in KINDS.items():
        for size in SIZES:
            given = size * times // 4 if kind == "reduce-scatter" else size // 4
            cases[f"{kind}:{given}"] = (kind, size * times)
    options = {"xla_gpu_enable_analytical_sol_latency_estimator": True}
    with_table = compiled({**options, TABLE: out}, *cases)
    without = compiled(options, *cases)
    others = 0
    for case, what in cases.items():
        said, other = times_said(with_table[case]), times_said(without[case])
        ranks.expect(len(said) == 1 and near(min(said), rows[what]),
                     f"{what} takes {rows[what]} us to XLA", with_table[case])
        others += len(other) == 1 and not near(min(other), rows[what])
        print(f"{what[0]} of {what[1]} bytes: {rows[what]:.3f} us to XLA, too; of its own",
              *other or ["none"], flush=True)
    # One may be what was measured by chance.
    ranks.expect(others >= len(cases) / 2, "without the table XLA has times of its own", "")


def costs_of(name, us):
    """A ProfiledInstructionsProto of one cost."""
    inner = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x11" + struct.pack("<d", us)
    return b"\x0a" + bytes([len(inner)]) + inner


def costs(folder):
    """An instruction's cost by its name: jaxlib reads it, and XLA schedules by it."""
    profile, out = f"{folder}/named.json", f"{folder}/named.pb"
    with open(f"{folder}/bench.json", encoding="utf-8") as file:
        document = json.load(file)
    row = dict(next(row for row in document["collectives"] if row["kind"] == "all-reduce"),
               name="all-reduce-start")
    row["moving_us"] = {"mean": 4321.5, "median": 4321.5, "p90": 4321.5}
    document["names"], document["collectives"] = [row], []
    with open(profile, "w", encoding="utf-8") as file:
        json.dump(document, file)
    command(TOWTRACE, "profile", profile, "-f", "xla-costs", "-o", out)
    read = command(PYTHON, "-c", "import sys; from jaxlib import _profiler; "
                   "print(_profiler.aggregate_profiled_instructions([open(sys.argv[1], 'rb')"
                   ".read()], 50).hex())", out)
    ranks.expect(read.strip() == costs_of("all-reduce-start", 4321.5).hex(),
                 "jaxlib reads the cost", read)
    case = f"all-reduce:{SIZES[1] // 4}"
    text = compiled({COSTS: out}, case)[case]
    for words in (f"Using PGLE profile from {out}", "cost_us: 4321.5",
                  "PGLE found latency for async op all-reduce-start"):
        ranks.expect(words in text, f"XLA says \"{words}\"", text)
    with open(out, "wb") as file:
        file.write(b"\xff" * 8)
    text = compiled({COSTS: out}, case)[case]
    ranks.expect("Tried but failed to parse PGLE proto" in text and "PGLE found" not in text,
                 "what is no profile is refused", text)
    print("a cost of 4321.5 us: read by jaxlib, scheduled by", flush=True)


PYTHON = ranks.python_of("scheduler")
with tempfile.TemporaryDirectory() as temporary:
    table(temporary)
    costs(temporary)
