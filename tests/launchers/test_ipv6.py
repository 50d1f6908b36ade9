"""test_ipv6.py - hosts that have no IPv4 address at all, not even on loopback: ranks that are told
the store by its address, by a name, by an exchange of the program's own; towrun; and those of the
other launchers that start there (Open MPI 4.1.4 does not).
"""
import os
import shutil
import sys

import hosts
import launchers

hosts.own_namespace()
net = hosts.Network(3, v4=False)
EXCHANGE = [sys.executable, os.path.join(launchers.SOURCE, "tests/launchers/launch_exchange.py")]

without = net.run(0, ["ip", "-4", "address"])
launchers.expect(without.returncode == 0 and "inet" not in without.text, "no IPv4 anywhere",
                 without.text)


def job(what, lanes, environment, command=lambda rank: [launchers.PROGRAM], per_host=1,
        launcher="tow"):
    """A job of three hosts, each rank started with the variables of TOW_*."""
    running = []
    for rank in range(3 * per_host):
        more = dict(environment)
        if launcher == "tow":
            more.update({"TOW_RANK": str(rank), "TOW_WORLD_SIZE": str(3 * per_host)})
        running.append(net.start(rank // per_host, command(rank), more))
    launchers.expect_job(hosts.gathered(running), 3 * per_host, launcher, lanes, what)


job("store by address", "tcp", {"TOW_STORE": "[fd77:0::1]:5001"})
job("store by address, tcp", "tcp", {"TOW_STORE": "[fd77:0::1]:5002", "TOW_LANES": "tcp"})
job("store by name, two ranks a host", "shm tcp", {"TOW_STORE": "h0:5003"}, per_host=2)
job("interfaces named", "tcp", {"TOW_STORE": "h0:5004", "TOW_INTERFACES": "rail0"})
job("own exchange", "tcp", {}, lambda rank: [*EXCHANGE, hosts.FOLDER, str(rank), "3"],
    launcher="single")
TOWRUN = [os.path.join(launchers.BUILD, "tools/towrun/towrun"), "-n", "3", "--tag-output", "off"]
for lanes in ("shm", "tcp"):
    done = net.run(0, [*TOWRUN, launchers.PROGRAM], {"TOW_LANES": lanes})
    launchers.expect_job(done, 3, "tow", lanes, f"towrun, {lanes}", locals=3)

if shutil.which("mpiexec.hydra"):
    done = net.run(0, ["mpiexec.hydra", "-n", "3", launchers.PROGRAM])
    launchers.expect_job(done, 3, "pmi", "shm", "hydra on one host", locals=3)
if launchers.fetched("torch"):
    torchrun = [launchers.python_of("torch"), "-m", "torch.distributed.run", "--no-python",
                "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id",
                "job", "--rdzv-endpoint", "h0:29400", launchers.PROGRAM]
    done = hosts.gathered([net.start(host, torchrun, launchers.runtime_environment("torch"))
                           for host in range(2)], 300)
    launchers.expect_job(done, 4, "torchrun", "shm tcp", "torchrun on two hosts", locals=2)
if launchers.fetched("jax"):
    rank = [launchers.python_of("jax"),
            os.path.join(launchers.SOURCE, "tests/launchers/launch_jax.py"), "[fd77:0::1]:4003"]
    done = hosts.gathered([net.start(host, [*rank, str(host), "3"],
                                     launchers.runtime_environment("jax")) for host in range(3)],
                          300)
    launchers.expect_job(done, 3, "single", "tcp", "jax.distributed on three hosts")
