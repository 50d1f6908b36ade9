"""test_mpich.py - MPICH's hydra, which speaks PMI: on one host, and over three hosts."""
import hosts
import launchers

launchers.need("mpiexec.hydra")
hosts.own_namespace()

print("hydra", hosts.must("mpiexec.hydra", "--version").split("Version:")[1].split()[0])
for lanes in ("shm", "tcp"):
    done = launchers.run(["mpiexec.hydra", "-n", "3", launchers.PROGRAM],
                         {"TOW_LANES": lanes} if lanes != "shm" else {})
    launchers.expect_job(done, 3, "pmi", lanes, f"one host, {lanes}", locals=3)

net = hosts.Network(3)
over = ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", net.shell(), "-iface", "rail0",
        "-hosts", "h0:2,h1:2,h2:2", "-n", "6", launchers.PROGRAM]
done = net.run(0, over)
launchers.expect_job(done, 6, "pmi", "shm tcp", "three hosts of two ranks", locals=2)
done = net.run(0, over, {"TOW_LANES": "tcp"})
launchers.expect_job(done, 6, "pmi", "tcp", "three hosts of two ranks, tcp")
