"""test_jobset.py - pods as Kubernetes makes them of packaging/kubernetes: a JobSet, an indexed Job,
a StatefulSet, a LeaderWorkerSet. A pod is a set of namespaces, PIDs included, with the variables,
the host name, the /etc/hosts and the resolver that the kubelet gives it; a name server knows pods
once they are there. There is no Kubernetes in it.

    test_jobset.py v4|v6     which addresses pods have
"""
import sys
import time

import hosts
import launchers
import name_server

hosts.own_namespace()
SUFFIX = "train.default.svc.cluster.local"
COUNT = 4
CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
           "KUBERNETES_PORT": "tcp://10.96.0.1:443", "TOW_STATS_DIR": "/run/towline"}


class Pods:
    """The pods of a headless service `train`."""

    def __init__(self, v4=True):
        self.net = hosts.Network(COUNT, v4=v4, v6=not v4, pods=True)
        self.resolver = "10.77.0.254" if v4 else "fd77:0::fe"
        self.server = name_server.Server(self.resolver)

    def begin(self, host, name, variables):
        """Starts the container of a pod."""
        net, address = self.net, self.net.address(host)
        hosts.must(*net.within(host), "hostname", name)
        net.put(host, "/etc/hosts", "# Kubernetes-managed hosts file.\n"
                "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
                f"fe00::0\tip6-localnet\n{address}\t{name}.{SUFFIX}\t{name}\n")
        net.put(host, "/etc/resolv.conf", "search default.svc.cluster.local svc.cluster.local "
                f"cluster.local\nnameserver {self.resolver}\noptions ndots:5\n")
        return net.start(host, [launchers.PROGRAM], {**CLUSTER, "HOSTNAME": name, **variables})

    def known(self, host, name):
        """From now on the service has the pod."""
        self.server.names[f"{name}.{SUFFIX}"] = self.net.address(host)

    def job(self, what, prefix, variables, late=False):
        """A job with a rank in each pod; late: pod 0 is not there before all others have asked."""
        names = [f"{prefix}-{rank}" for rank in range(COUNT)]
        running, leader = [], f"{names[0]}.{SUFFIX}"
        self.server.names.clear()
        self.server.asked.clear()
        for rank in reversed(range(COUNT)):
            if late and rank == 0:
                time.sleep(3)
                launchers.expect(self.server.asked.get(leader, 0) >= COUNT - 1,
                                 "pods ask for pod 0 before it is there", str(self.server.asked))
            running.insert(0, self.begin(rank, names[rank], variables(rank)))
            self.known(rank, names[rank])
        ranks = launchers.expect_job(hosts.gathered(running), COUNT, "kubernetes", "tcp", what)
        launchers.expect(ranks[1]["job"].startswith("train/kubernetes-"), "the job has its name",
                         ranks[1]["job"])


def indexed(rank):
    """What packaging/kubernetes/jobset.yaml gives a container."""
    return {"TOW_WORLD_SIZE": str(COUNT), "TOW_JOB": "train", "TOW_JOB_KEY": "1" * 64,
            "JOB_COMPLETION_INDEX": str(rank)}


def stateful(_):
    """A StatefulSet, or pods by hand (docs/howto/containers.md): the name alone says the rank."""
    return {"TOW_WORLD_SIZE": str(COUNT), "TOW_JOB": "train"}


def leader_worker(rank):
    """A LeaderWorkerSet."""
    return {"LWS_WORKER_INDEX": str(rank), "LWS_GROUP_SIZE": str(COUNT), "TOW_JOB": "train",
            "LWS_LEADER_ADDRESS": f"train-ranks-0.{SUFFIX}"}


pods = Pods(v4=sys.argv[1] == "v4")
pods.job("JobSet", "train-ranks-0", indexed)
pods.job("JobSet, pod 0 is late", "train-ranks-0", indexed, late=True)
pods.job("JobSet, tcp", "train-ranks-0", lambda rank: {**indexed(rank), "TOW_LANES": "tcp"})
pods.job("indexed Job", "train", indexed)
pods.job("StatefulSet", "train", stateful)
pods.job("LeaderWorkerSet", "train-ranks", leader_worker)
