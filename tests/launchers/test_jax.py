"""test_jax.py - jax.distributed: processes that it numbers, whose key-value service is the exchange
by which Towline's ranks find each other; on one host, and over three.
"""
import os
import shutil

import hosts
import launchers

PYTHON = launchers.python_of("jax")
hosts.own_namespace()
RANK = [PYTHON, os.path.join(launchers.SOURCE, "tests/launchers/launch_jax.py")]
QUIET = launchers.runtime_environment("jax")
LIMIT_S = 300  # the first start compiles jax


def job(what, place, coordinator, lanes, wanted):
    """A job of three processes, process i on host place[i]."""
    more = {**QUIET, **({"TOW_LANES": lanes} if lanes else {})}
    running = [net.start(host, [*RANK, coordinator, str(rank), "3"], more)
               for rank, host in enumerate(place)]
    done = hosts.gathered(running, LIMIT_S)
    launchers.expect("process 2 of 3, 3 devices, 1 here" in done.text, "jax is of three processes",
                     done.text)
    launchers.expect_job(done, 3, "single", wanted, what)


net = hosts.Network(3)
print("jax", hosts.must(PYTHON, "-c", "import importlib.metadata as m; print(m.version('jax'))")
      .strip(), flush=True)
job("one host", (0, 0, 0), "127.0.0.1:4001", "", "shm")
job("one host, tcp", (0, 0, 0), "127.0.0.1:4002", "tcp", "tcp")
job("three hosts", (0, 1, 2), "h0:4003", "", "tcp")
job("three hosts, tcp", (0, 1, 2), "h0:4004", "tcp", "tcp")
if shutil.which("mpirun.openmpi"):
    done = net.run(0, ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--host",
                       "h0:1,h1:1,h2:1", "-mca", "plm_rsh_agent", net.shell(), "-mca",
                       "oob_tcp_if_include", "rail0", *(word for name in (*QUIET, "TOW_TEST_BUILD")
                                                        for word in ("-x", name)), *RANK],
                   {**QUIET, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
                   LIMIT_S)
    launchers.expect_job(done, 3, "openmpi", "tcp", "three hosts, mpirun's variables")
