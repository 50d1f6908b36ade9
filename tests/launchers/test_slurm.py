"""test_slurm.py - Slurm: a cluster of three hosts with a daemon each, a controller and munge, which
the test configures in a folder of its own, starts, and ends. Steps of srun, two at once, jobs of
sbatch.
"""
import glob
import os
import pathlib
import secrets
import subprocess
import time

import hosts
import launchers

launchers.need("srun", "slurmctld", "slurmd", "munged")
if os.geteuid() != 0:
    launchers.skip("only root may: slurmctld and slurmd call setgroups, which namespaces that an "
                   "ordinary user has made forbid")
hosts.own_namespace()
CONF = """ClusterName=towline
SlurmctldHost=n0
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_min_interval=0
JobRequeue=1
NodeName=n[0-2] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """The daemons; they end with the test's PID namespace."""

    def __init__(self):
        self.net = hosts.Network(3, names=["n0", "n1", "n2"])
        self.folder = os.path.join(hosts.FOLDER, "slurm")
        self.more = {"SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        hosts.write(self.more["SLURM_CONF"], CONF.format(folder=self.folder))
        hosts.write(os.path.join(self.folder, "cgroup.conf"), "CgroupPlugin=cgroup/v1\n")
        for name in ("state", "tmp-n0", "tmp-n1", "tmp-n2"):
            os.mkdir(os.path.join(self.folder, name))
        self._munge()
        self.logs = []
        self._daemon(0, "slurmctld", "-D")
        for host in range(3):
            self._daemon(host, "slurmd", "-D", "-N", f"n{host}")
        self._await()

    def _munge(self):
        key = os.path.join(self.folder, "munge.key")
        pathlib.Path(key).write_bytes(secrets.token_bytes(128))
        os.chmod(key, 0o600)
        subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={key}",
                          f"--socket={self.folder}/munge.socket",
                          f"--pid-file={self.folder}/munged.pid",
                          f"--seed-file={self.folder}/munge.seed"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        for _ in range(100):
            if os.path.exists(f"{self.folder}/munge.socket"):
                return
            time.sleep(0.1)
        launchers.expect(False, "munged begins")

    def _daemon(self, host, *command):
        log = os.path.join(self.folder, f"{command[0]}-{host}.out")
        self.logs.append(log)
        with open(log, "w", encoding="utf-8") as out:
            subprocess.Popen([*self.net.within(host), *command], stdin=subprocess.DEVNULL,
                             stdout=out, stderr=subprocess.STDOUT,
                             env=launchers.clean_environment(self.more))

    def _await(self):
        said = ""
        for _ in range(60):
            said = self.net.run(0, ["sinfo", "-h", "-o", "%t %D"], self.more).text
            if said.strip() == "idle 3":
                return
            time.sleep(0.5)
        launchers.expect(False, "three nodes are idle", said + self.log())

    def log(self):
        """What the daemons have said."""
        names = [*self.logs, *(f"{self.folder}/{name}" for name in os.listdir(self.folder)
                               if name.endswith(".log"))]
        return "\n".join(f"== {name}\n{pathlib.Path(name).read_text(errors='replace')[-1500:]}"
                         for name in names if os.path.exists(name))

    def run(self, *command, environment=None):
        """Runs a command of Slurm's on the first host."""
        done = self.net.run(0, command, {**self.more, **(environment or {})})
        if done.returncode:
            done.text += self.log()
        return done

    def batch(self, script, *options):
        """Runs a script by sbatch; what it has printed, once it has ended."""
        out = os.path.join(self.folder, f"batch-{time.monotonic_ns()}")
        path = hosts.write(out + ".sh", "#!/bin/sh\n" + script)
        return self.run("sbatch", "--wait", "--output", out, "--open-mode=append", *options,
                        path), out


cluster = Cluster()
THREE = ("srun", "-N3", "-n6", "--ntasks-per-node=2")
print(cluster.run("srun", "--version").text.strip(), flush=True)
for lanes, wanted in (("", "shm tcp"), ("tcp", "tcp")):
    done = cluster.run(*THREE, launchers.PROGRAM, environment={"TOW_LANES": lanes} if lanes else {})
    launchers.expect_job(done, 6, "slurm", wanted, f"srun on three hosts, {lanes or 'tow'}")
done = cluster.run("srun", "-N1", "-n3", launchers.PROGRAM)
launchers.expect_job(done, 3, "slurm", "shm", "srun on one host")
done = cluster.run(*THREE, "--mpi=pmi2", launchers.PROGRAM)
launchers.expect_job(done, 6, "pmi", "shm tcp", "srun --mpi=pmi2")

if glob.glob("/usr/lib/*/pmix2/lib/libpmix.so"):  # what Slurm's plugin opens
    done = cluster.run(*THREE, "--mpi=pmix", launchers.PROGRAM)
    launchers.expect_job(done, 6, "pmix", "shm tcp", "srun --mpi=pmix")
else:
    print("srun --mpi=pmix: not run, as libpmix-dev is not installed", flush=True)

# A job of several steps: on some of its hosts, and two at once that share them.
done = cluster.run("salloc", "-Q", "-N3", "-n6", "srun", "-N2", "-n2", "-w", "n[1-2]",
                   launchers.PROGRAM)
ranks = launchers.expect_job(done, 2, "slurm", "tcp", "a step on the last two of three hosts")
script = f"""step() {{
	srun --exact -N3 -n3 {launchers.PROGRAM} 3 65536 >{cluster.folder}/step-$1 2>&1
}}
step one & step two &
wait
"""
done, _ = cluster.batch(script, "-N3", "--ntasks-per-node=2")
jobs = set()
for step in ("one", "two"):
    done.text = pathlib.Path(f"{cluster.folder}/step-{step}").read_text(encoding="utf-8")
    ranks = launchers.expect_job(done, 3, "slurm", "tcp", f"two steps at once, step {step}")
    jobs.add(ranks[0]["job"])
launchers.expect(len(jobs) == 2, "the steps are jobs of their own", str(jobs))

# Parts with other numbers of ranks are one job; elements of an array are jobs of their own.
done = cluster.run("srun", "-n1", "-w", "n0", ":", "-n2", "-w", "n1", launchers.PROGRAM)
launchers.expect_job(done, 3, "slurm", None, "a heterogeneous job")
out = f"{cluster.folder}/element-$SLURM_ARRAY_TASK_ID"
done, _ = cluster.batch(f"srun {launchers.PROGRAM} >{out} 2>&1\n", "-N2", "-n2", "--array=0-1")
for element in range(2):
    done.text = pathlib.Path(f"{cluster.folder}/element-{element}").read_text(encoding="utf-8")
    launchers.expect_job(done, 2, "slurm", "tcp", f"element {element} of an array")

# The script of a batch job is no rank, though it has the variables of one.
done, out = cluster.batch(f"{launchers.PROGRAM}\n", "-N3", "-n3")
done.text += pathlib.Path(out).read_text(encoding="utf-8")
launchers.expect_job(done, 1, "single", "loop", "the script of sbatch")

# A job that is put back into the queue has its count of restarts.
done, out = cluster.batch(f"""[ -n "$SLURM_RESTART_COUNT" ] || {{
	scontrol requeue $SLURM_JOB_ID
	sleep 60
}}
srun -n3 {launchers.PROGRAM}
touch {cluster.folder}/requeued
""", "-N3", "-n3", "--requeue")
for _ in range(60):
    if os.path.exists(f"{cluster.folder}/requeued"):
        break
    time.sleep(1)
done.text += pathlib.Path(out).read_text(encoding="utf-8") + cluster.log()
done.returncode = 0  # of a job that was requeued; the ranks say whether they did well
launchers.expect_job(done, 3, "slurm", "tcp", "a requeued job", restarts=1)

# Without libpmi2 Slurm is spoken to in PMI 1, on the same descriptor.
for library in glob.glob("/usr/lib/*/libpmi2.so.0"):
    for host in range(3):
        cluster.net.put(host, library, "")
done = cluster.run(*THREE, "--mpi=pmi2", launchers.PROGRAM)
launchers.expect_job(done, 6, "pmi", "shm tcp", "srun --mpi=pmi2 without libpmi2")
