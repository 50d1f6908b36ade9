"""hosts.py - hosts that are namespaces: each has a network, mounts and a name of its own, a boot id
as of another machine, and cables to switches of the test's.

    hosts.own_namespace()                       # first: the test goes on in namespaces of its own
    net = hosts.Network(3, rails=2)
    done = net.run(0, [program])                # a command on host 0
    running = net.start(1, [program], {...})

Host i has the address 10.77.RAIL.(i + 1) and fd77:RAIL::(i + 1); the test is .254 and ::fe. All
ends with the test: the first process of its PID namespace is the test itself. Hosts share that
namespace, since a launcher on one starts processes on another; pods=True gives each its own. It
needs no root where users may make namespaces.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import uuid

import launchers

MARK = "TWT_LAUNCHERS_NAMESPACE"
FOLDER = ""


def own_namespace():
    """Starts this script again in namespaces of its own, and skips it where there are none."""
    if MARK in os.environ:
        fresh_folder()
        return
    launchers.need("unshare", "nsenter", "ip", "mount")
    command = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc",
               "--kill-child"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    probe = "ip link add twt0 type bridge && ip link add twt1 type veth peer name twt2"
    tried = subprocess.run([*command, "sh", "-c", probe], capture_output=True, text=True,
                           check=False)
    if tried.returncode != 0:
        launchers.skip("there are no namespaces with a network here: " + tried.stderr.strip())
    with tempfile.TemporaryDirectory(prefix="towline-hosts-") as folder:
        ended = subprocess.run([*command, sys.executable, *sys.argv], check=False,
                               env={**os.environ, MARK: folder})
    sys.exit(ended.returncode)


def fresh_folder():
    """What belongs to the hosts lies there, and goes with the test."""
    global FOLDER  # pylint: disable=global-statement
    FOLDER = os.environ.pop(MARK)
    os.environ["TMPDIR"] = FOLDER
    must("ip", "link", "set", "lo", "up")
    must("mount", "--make-rprivate", "/")
    must("mount", "-t", "tmpfs", "none", "/run")


def must(*command):
    """Runs a command that has to go well."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    launchers.expect(done.returncode == 0, " ".join(command), done.stdout + done.stderr)
    return done.stdout


def write(path, text):
    """A file, with its folders; its path."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


class Network:
    """Hosts with `rails` cables each. names: their names, h0 and so on where there are none. v4:
    False leaves no IPv4 address, not even on loopback; v6 likewise."""

    def __init__(self, count, rails=1, names=None, v4=True, v6=True, pods=False):
        self.rails, self.v4, self.v6 = rails, v4, v6
        self.apart = ["--net", "--mount", "--uts", "--ipc", *(["--pid"] if pods else [])]
        self.names = names or [f"h{i}" for i in range(count)]
        self.pids, self.inits = [], []
        for rail in range(rails):
            must("ip", "link", "add", f"switch{rail}", "type", "bridge")
            self._address([], f"switch{rail}", rail, "254", "fe")
        for host in range(count):
            self._host(host)

    def _address(self, within, device, rail, low4, low6):
        if self.v6:
            must(*within, "ip", "-6", "address", "add", f"fd77:{rail}::{low6}/64", "dev", device,
                 "nodad")
        if self.v4:
            must(*within, "ip", "address", "add", f"10.77.{rail}.{low4}/24", "dev", device)
        must(*within, "ip", "link", "set", device, "up")

    def address(self, host, rail=0):
        """An address of a host, IPv4 where there is one."""
        return f"10.77.{rail}.{host + 1}" if self.v4 else f"fd77:{rail}::{host + 1:x}"

    def _host(self, host):
        own_proc = ["--mount-proc"] if "--pid" in self.apart else []
        init = subprocess.Popen(["unshare", *self.apart, "--fork", "--kill-child", *own_proc, "sh",
                                 "-c", "echo ready; exec sleep infinity"],
                                stdout=subprocess.PIPE, text=True)
        launchers.expect(init.stdout.readline() == "ready\n", f"host {host} begins")
        with open(f"/proc/{init.pid}/task/{init.pid}/children", encoding="ascii") as children:
            self.pids.append(int(children.read().split()[0]))
        self.inits.append(init)
        within = self.within(host)
        must(*within, "ip", "link", "set", "lo", "up")
        if not self.v4:
            must(*within, "ip", "-4", "address", "flush", "dev", "lo")
        if not self.v6:
            must(*within, "ip", "-6", "address", "flush", "dev", "lo")
        for rail in range(self.rails):
            must("ip", "link", "add", f"h{host}r{rail}", "type", "veth", "peer", "name",
                 f"rail{rail}", "netns", str(self.pids[host]))
            must("ip", "link", "set", f"h{host}r{rail}", "master", f"switch{rail}", "up")
            self._address(within, f"rail{rail}", rail, str(host + 1), f"{host + 1:x}")
        must(*within, "hostname", self.names[host])
        # Another machine, to whoever asks the kernel which one it is.
        self.put(host, "/proc/sys/kernel/random/boot_id", f"{uuid.uuid4()}\n")
        must(*within, "mount", "-t", "tmpfs", "none", "/run")
        self.put(host, "/etc/hosts", "".join(
            f"{self.address(i)} {name}\n" for i, name in enumerate(self.names)) +
            ("127.0.0.1 localhost\n" if self.v4 else "::1 localhost\n"))

    def within(self, host):
        """The words before a command that is to run on a host."""
        return ["nsenter", "--target", str(self.pids[host]), *self.apart, "--"]

    def put(self, host, path, text):
        """Gives a host a file of its own in the place of this machine's."""
        own = write(os.path.join(FOLDER, str(host), path.strip("/").replace("/", "-")), text)
        must(*self.within(host), "mount", "--bind", own, path)

    def start(self, host, command, environment=None):
        """Starts a command on a host."""
        return subprocess.Popen([*self.within(host), *command], text=True, errors="replace",
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                env=launchers.clean_environment(environment))

    def run(self, host, command, environment=None, limit_s=90):
        """Runs a command on a host to its end."""
        return launchers.ended(self.start(host, command, environment), limit_s)

    def shell(self):
        """A program that is called as ssh is, HOST COMMAND..., for launchers that want one."""
        words = "".join(f'{name}) pid={pid};;\n'
                        for name, pid in zip(self.names, self.pids))
        path = write(os.path.join(FOLDER, "shell"), f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in
{words}*) echo "no host $1" >&2; exit 255;;
esac
shift
exec {shutil.which("nsenter")} --target "$pid" {" ".join(self.apart)} -- sh -c "$*"
""")
        os.chmod(path, 0o755)
        return path

    def carried(self, host, rail):
        """Bytes that a host has sent and received by a rail."""
        row = next(line for line in must(*self.within(host), "cat", "/proc/net/dev").splitlines()
                   if line.strip().startswith(f"rail{rail}:")).split(":")[1].split()
        return int(row[8]), int(row[0])

    def pull(self, host, rail):
        """Pulls the cable of a rail out of its switch: packets are lost, no interface is told."""
        must("ip", "link", "set", f"h{host}r{rail}", "nomaster")

    def plug(self, host, rail):
        """Puts the cable back."""
        must("ip", "link", "set", f"h{host}r{rail}", "master", f"switch{rail}")


def gathered(running, limit_s=90):
    """Waits for commands, one a rank, and makes of them what launchers.expect_job judges."""
    for one in running:
        launchers.ended(one, limit_s)
    running[0].text = "".join(one.text for one in running)
    running[0].returncode = next((one.returncode for one in running if one.returncode), 0)
    return running[0]
