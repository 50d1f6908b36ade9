"""name_server.py - a name server as a cluster has one: it knows pods by their names in a headless
service, from when they are told to it. Only as much of DNS as a resolver asks.

    server = name_server.Server("10.77.0.254")
    server.names["train-0.train.default.svc.cluster.local"] = "10.77.0.1"
"""
import ipaddress
import socket
import struct
import threading


class Server:
    """Answers A and AAAA over UDP, until the process ends."""

    def __init__(self, address):
        self.names, self.asked = {}, {}
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            question, sender = self.socket.recvfrom(1500)
            self.socket.sendto(self.answer(question), sender)

    def answer(self, question):
        """The reply to a question: the address, no such name, or a name without such an address."""
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        name, kind = ".".join(labels).lower(), struct.unpack("!H", question[at + 1:at + 3])[0]
        self.asked[name] = self.asked.get(name, 0) + 1
        address = self.names.get(name)
        packed = ipaddress.ip_address(address).packed if address else b""
        found = packed if len(packed) == {1: 4, 28: 16}.get(kind) else b""
        reply = question[:2] + struct.pack("!HHHHH", 0x8580 if address else 0x8583, 1,
                                           1 if found else 0, 0, 0) + question[12:at + 5]
        if found:
            reply += struct.pack("!HHHIH", 0xC00C, kind, 1, 5, len(found)) + found
        return reply
