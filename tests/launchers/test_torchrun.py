"""test_torchrun.py - PyTorch's torchrun: on one host, with a rank that fails once and is started
anew, and over two hosts by c10d's rendezvous. The ranks are no Python.
"""
import os

import hosts
import launchers

PYTHON = launchers.python_of("torch")
hosts.own_namespace()
TORCHRUN = [PYTHON, "-m", "torch.distributed.run", "--no-python"]
QUIET = launchers.runtime_environment("torch")
LIMIT_S = 300  # the first start compiles torch

print("torch", hosts.must(PYTHON, "-c", "import importlib.metadata as m; print(m.version('torch'))")
      .strip(), flush=True)
for lanes in ("shm", "tcp"):
    done = launchers.run([*TORCHRUN, "--standalone", "--nproc-per-node", "3", launchers.PROGRAM],
                         {**QUIET, "TOW_LANES": lanes}, LIMIT_S)
    launchers.expect_job(done, 3, "torchrun", lanes, f"one host, {lanes}", locals=3, restarts=0)
mark = os.path.join(hosts.FOLDER, "mark")
done = launchers.run([*TORCHRUN, "--standalone", "--nproc-per-node", "3", "--max-restarts", "2",
                      launchers.PROGRAM, "0", "4096", mark], QUIET, LIMIT_S)
launchers.expect("rank 2 fails, this once" in done.text, "a rank fails", done.text)
launchers.expect_job(done, 3, "torchrun", "shm", "a rank has failed", locals=3, restarts=1)

net = hosts.Network(2)
for lanes, wanted in (("", "shm tcp"), ("tcp", "tcp")):
    over = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
            "--rdzv-id", f"job{lanes}", "--rdzv-endpoint", "h0:29400", launchers.PROGRAM]
    both = [net.start(host, over, {**QUIET, **({"TOW_LANES": lanes} if lanes else {})})
            for host in range(2)]
    done = hosts.gathered(both, LIMIT_S)
    launchers.expect_job(done, 4, "torchrun", wanted, f"two hosts of two ranks, {lanes or 'tow'}",
                         locals=2)
static = [*TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "h0",
          "--master-port", "29500"]
both = [net.start(host, [*static, "--node-rank", str(host), launchers.PROGRAM], QUIET)
        for host in range(2)]
launchers.expect_job(hosts.gathered(both, LIMIT_S), 2, "torchrun", "tcp",
                     "two hosts, a static rendezvous")
