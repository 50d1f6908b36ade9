"""openmetrics.py PEER - reads /metrics from standard input with the official parser, and checks
what that leaves open: that histograms add up, that exemplars lie in their bucket and are short, and
that a peer's name comes out as it went in. Exit 77: this Python has no such parser.
"""
import collections
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("skip: no prometheus_client")
    sys.exit(77)


def check_histogram(family):
    series = collections.defaultdict(list)
    counts = {}
    exemplars = 0
    for sample in family.samples:
        labels = dict(sample.labels)
        edge = labels.pop("le", None)
        key = tuple(sorted(labels.items()))
        if edge is None:
            if sample.name.endswith("_count"):
                counts[key] = sample.value
            continue
        series[key].append((float(edge), sample.value))
        if sample.exemplar is not None:
            exemplars += 1
            about = sample.exemplar.labels
            assert about["rpc_id"].isdigit(), about
            assert sum(len(k) + len(v) for k, v in about.items()) <= 128, about
            assert sample.exemplar.value <= float(edge), (sample, edge)
            assert float(sample.exemplar.timestamp) > 1e9, sample
            assert sample.value > 0, sample
    for key, buckets in series.items():
        values = [value for _, value in buckets]
        assert values == sorted(values) and buckets == sorted(buckets), (family.name, key)
        assert buckets[-1][0] == float("inf") and values[-1] == counts[key], (family.name, key)
    return exemplars


def main():
    text = sys.stdin.buffer.read().decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 20
    assert all(family.documentation for family in families)
    exemplars = sum(check_histogram(f) for f in families if f.type == "histogram")
    peers = {s.labels["peer"] for f in families for s in f.samples if "peer" in s.labels}
    assert exemplars > 0 and sys.argv[1] in peers, peers
    print(len(families), "families,", exemplars, "exemplars,", len(peers), "peers")


main()
