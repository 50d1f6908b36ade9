"""test_openmpi.py - Open MPI's mpirun: on one host, by PMIx alone, and over three hosts."""
import hosts
import launchers

launchers.need("mpirun.openmpi")
hosts.own_namespace()
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
PASS_ON = ["-x", "TOW_FLIGHT_DIR", "-x", "TOW_LOG_LEVEL"]

print(hosts.must("mpirun.openmpi", "--version").splitlines()[0])
for lanes in ("shm", "tcp"):
    environment = {**ROOT, **({"TOW_LANES": lanes} if lanes != "shm" else {})}
    done = launchers.run([*MPIRUN, "-n", "3", launchers.PROGRAM], environment)
    launchers.expect_job(done, 3, "openmpi", lanes, f"one host, {lanes}", locals=3)
done = launchers.run([*MPIRUN, "-n", "3", "env", "-u", "OMPI_COMM_WORLD_RANK", "-u",
                      "OMPI_COMM_WORLD_SIZE", launchers.PROGRAM], ROOT)
launchers.expect_job(done, 3, "pmix", "shm", "one host, PMIx alone")

net = hosts.Network(3)
over = [*MPIRUN, "--host", "h0:2,h1:2,h2:2", "-mca", "plm_rsh_agent", net.shell(), "-mca",
        "oob_tcp_if_include", "rail0", "-n", "6", *PASS_ON]
done = net.run(0, [*over, launchers.PROGRAM], ROOT)
ranks = launchers.expect_job(done, 6, "openmpi", "shm tcp", "three hosts of two ranks", locals=2)
done = net.run(0, [*over, "-x", "TOW_LANES", launchers.PROGRAM], {**ROOT, "TOW_LANES": "tcp"})
launchers.expect_job(done, 6, "openmpi", "tcp", "three hosts of two ranks, tcp")
