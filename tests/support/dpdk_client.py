"""dpdk_client.py SOCKET - speaks to a telemetry socket as DPDK's usertools/dpdk-telemetry.py does.

That script's functions read_socket and handle_socket, with the rules of an answer checked where
it would print: a greeting of at most 1024 bytes with version, pid and max_output_len; "/" lists
the commands; each reply is one packet of at most max_output_len, an object with the command as
its only key. It asks for every command, its help, and all pages of what has more than one. Prints
what it has seen.
"""
import json
import socket
import sys


def read_socket(sock, buf_len):
    reply = sock.recv(buf_len).decode()
    return json.loads(reply)


def ask(sock, buf_len, text):
    sock.send(text.encode())
    reply = read_socket(sock, buf_len)
    command = text.split(",")[0]
    assert list(reply) == [command], (text, list(reply))
    return reply[command]


def flat(value):
    return isinstance(value, dict) and all(
        isinstance(key, str) and not isinstance(one, (dict, list)) for key, one in value.items())


def all_pages(sock, buf_len, command):
    value = ask(sock, buf_len, command)
    assert flat(value), (command, value)
    items, pages = {}, 1
    while True:
        following = value.pop("next_page", None)
        assert not set(value) & set(items), command
        items.update(value)
        if following is None:
            return items, pages
        assert following == pages, (command, following)
        value = ask(sock, buf_len, "%s,%d" % (command, following))
        pages += 1


def main():
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(10)
    sock.connect(sys.argv[1])
    greeting = read_socket(sock, 1024)
    assert sorted(greeting) == ["max_output_len", "pid", "version"], greeting
    buf_len = greeting["max_output_len"]
    commands = ask(sock, buf_len, "/")
    assert commands[:3] == ["/", "/help", "/info"], commands
    assert ask(sock, buf_len, "/info") == greeting
    assert ask(sock, buf_len, "/nothing") is None
    assert ask(sock, buf_len, "/help,/nothing") is None
    assert ask(sock, buf_len, "/towline/counters,99999") is None
    for command in commands:
        assert len(command) < 56
        text = ask(sock, buf_len, "/help," + command)
        assert list(text) == [command] and isinstance(text[command], str), text
    for command in commands:
        if command.startswith("/towline/"):
            items, pages = all_pages(sock, buf_len, command)
            print(command, len(items), pages)
    counters, _ = all_pages(sock, buf_len, "/towline/counters")
    assert "sends" in counters, counters


main()
