"""xprof_server.py - what XProf's own server answers of a capture, asked as its page asks.

  xprof_server.py LOGDIR RUN EXPECTED.json

Its server (xprof.server) runs here on a free port of loopback, without its gRPC worker: it listens
everywhere. Exit 0: all agree; 77: there is no such server, with the reason; 1: one does not agree.

By hand, with the page: xprof --logdir LOGDIR --port 8791, or
  chromium --headless --no-sandbox --virtual-time-budget=15000 --screenshot=page.png \\
    'http://127.0.0.1:8791/data/plugin/profile/trace_viewer@?run=RUN&tag=trace_viewer@&host=HOST'
"""
import gzip
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

from trace_tools import RECEIVE, compare_slack, expect, skip, table_rows

PATIENCE_S = 60


def serve(logdir):
    """The server's address. It ends with this process."""
    try:
        from cheroot import wsgi
        from xprof import server
        app = server.make_wsgi_app(server.ProfilePluginLoader().load(server.TBContext(
            logdir, server.DataProvider(logdir), server.TBContext.Flags(False))))
    except (ImportError, AttributeError, TypeError) as error:
        skip(f"no server of XProf's as it was known: {error}")
    one = wsgi.Server(("127.0.0.1", 0), app)
    one.prepare()
    threading.Thread(target=one.serve, daemon=True).start()
    return f"http://127.0.0.1:{one.bind_addr[1]}"


def get(address, path, **query):
    url = f"{address}{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            body = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            return body
    except urllib.error.HTTPError as error:
        expect(False, f"{url}: {error} {error.read()[:200]}")
    return None


def main(logdir, run, expected):
    address = serve(logdir)

    def plugin(what, **query):
        return get(address, f"/data/plugin/profile/{what}", **query)

    page = get(address, "/").decode()
    for name in re.findall(r'(?:src|href)="([\w.]+\.(?:js|css))"', page):
        expect(len(plugin(name)) > 0, f"the page's {name}")
    expect(json.loads(plugin("runs")) == [run], "runs")
    tools = json.loads(plugin("run_tools", run=run))
    expect({"trace_viewer@", "megascale_stats"} <= set(tools), f"tools are {tools}")
    hosts = {tool: [row["hostname"] for row in json.loads(plugin("hosts", run=run, tag=tool))]
             for tool in tools}
    host, = hosts["megascale_stats"]
    expect(all(names == [host] for names in hosts.values()), f"hosts {hosts}")
    events = json.loads(plugin("data", run=run, tag="trace_viewer@", host=host))["traceEvents"]
    names = {event.get("name") for event in events}
    wanted = {RECEIVE, "MegaScale: Communication Transport Send", "compute", "NetworkReceive END"}
    expect(wanted <= names, f"trace viewer: no {wanted - names}")
    shown = {event["args"]["name"] for event in events if event.get("name") == "process_name"}
    expect(all(any(plane in name for name in shown)
               for plane in ("/device:TPU:0", "/device:TPU:1", "/host:CPU", "Megascale Trace")),
           f"trace viewer: {shown}")
    # The page shows the table for ALL_HOSTS alone, and opens Perfetto for a host.
    for which in ("ALL_HOSTS", host):
        compare_slack(list(table_rows(plugin("data", run=run, tag="megascale_stats", host=which))),
                      expected["slack"])
    trace = gzip.decompress(plugin("data", run=run, tag="megascale_stats", host=host,
                                   perfetto="true"))
    expect(all(what in trace for what in (b"NetworkReceive END", b"Megascale")),
           "the Megascale Viewer's trace")
    # The overview reckons with what devices did, and says that nothing is known of it.
    expect(b"Towline: a device here is a rank" in plugin("data", run=run, tag="overview_page",
                                                         host=host),
           "the overview does not say that its shares of time are not measured")
    # Some are asked about an op of a module.
    module = plugin("module_list", run=run, host=host).decode()
    expect(module.startswith("towline"), f"modules {module}")
    for tool in tools:
        expect(plugin("data", run=run, tag=tool, host=host, module_name=module, node_name="send.1",
                      type="graph", format="html", graph_width=3, show_metadata="false",
                      merge_fusion="false"), f"{tool}: nothing")
    print(f"XProf's server lists {' '.join(tools)}, and answers all of them")


if __name__ == "__main__":
    with open(sys.argv[3], encoding="utf-8") as wanted_file:
        EXPECTED = json.load(wanted_file)
    STATUS = 1
    try:
        main(os.path.abspath(sys.argv[1]), sys.argv[2], EXPECTED)
        print("all agree")
        STATUS = 0
    except SystemExit as ended:
        STATUS = ended.code
    finally:
        sys.stdout.flush()
        os._exit(STATUS)  # the server's threads would stay
