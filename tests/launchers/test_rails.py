"""test_rails.py - three hosts of two rails each: all six carry payload, and the job goes on by the
other one when a rail is pulled out of its switch, also when that one leads to the store.

A rail that is pulled loses packets, and no interface is told. Connections that stall by it are
resumed by the other rail, and go back when it is there again.
"""
import time

import hosts
import launchers

SECONDS, BYTES, LEAST = 25, 4 << 20, 8
hosts.own_namespace()
net = hosts.Network(3, rails=2)
TWO = {"TOW_INTERFACES": "rail0,rail1", "TOW_BULK_STREAMS": "2", "TOW_PEER_TIMEOUT_NS": "6s"}


def start(environment):
    """Starts a rank on each host; the store is at rail 0 of the first."""
    return [net.start(rank, [launchers.PROGRAM, str(SECONDS), str(BYTES)],
                      {"TOW_RANK": str(rank), "TOW_WORLD_SIZE": "3",
                       "TOW_STORE": f"{net.address(0)}:5001", **TWO, **environment})
            for rank in range(3)]


def rates(seconds):
    """MiB that each rail of each host sends in that time."""
    def counted():
        return {(host, rail): net.carried(host, rail)[0] for host in range(3) for rail in range(2)}
    before = counted()
    time.sleep(seconds)
    return {rail: (count - before[rail]) / 2**20 for rail, count in counted().items()}


def shown(counts):
    """The same, as a line of text."""
    return ", ".join(f"h{host} rail{rail} {count:.0f}" for (host, rail), count in counts.items())


def play(what, environment, host, rail):
    """A job, out of which a host's rail is pulled."""
    running = start(environment)
    whole = {}
    for _ in range(10):
        whole = rates(1)
        if min(whole.values()) > LEAST:
            break
    print(f"{what}, MiB sent in 1 s by all: {shown(whole)}", flush=True)
    launchers.expect(min(whole.values()) > LEAST, "all six rails carry payload")
    net.pull(host, rail)
    rates(1)  # what was on its way
    pulled, seconds = rates(1), 1
    while pulled[host, 1 - rail] < LEAST and seconds < 12:
        pulled, seconds = rates(1), seconds + 1
    print(f"{what}, h{host} rail{rail} is pulled: {shown(pulled)}", flush=True)
    launchers.expect(pulled[host, 1 - rail] > LEAST, "the other rail of the host carries all of it")
    launchers.expect(pulled[host, rail] < 1, "the rail is out")
    net.plug(host, rail)
    back, seconds = rates(1), 1
    while back[host, rail] < LEAST and seconds < 12:
        back, seconds = rates(1), seconds + 1
    print(f"{what}, it is back, and used after {seconds} s: {shown(back)}", flush=True)
    launchers.expect(back[host, rail] > LEAST, "the rail that is back carries payload again")
    ranks = launchers.expect_job(hosts.gathered(running), 3, "tow", "tcp", what)
    longest = max(float(said["longest"]) for said in ranks.values())
    print(f"{what}: the longest round took {longest} s", flush=True)
    launchers.expect(longest < 5, "the job went on by the other rail, long before any timeout")


play("tow", {}, 1, 1)
play("tcp", {"TOW_LANES": "tcp"}, 1, 1)
play("the rail to the store", {}, 2, 0)
