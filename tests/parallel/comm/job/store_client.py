"""A client of the store, written only from the description in store_protocol.h. It may stop halfway or break rules."""
import hashlib
import hmac
import os
import socket
import struct


def frame(body):
    return struct.pack('>I', len(body)) + body


def hello(nonce):
    return frame(b'RINGRAD1' + nonce)


class StoreClient:
    def __init__(self, address, token, enter=True):
        self.token = token.encode()
        self.socket = socket.create_connection(address)
        self.num_sent = self.num_received = 0
        self.sent = b''
        if enter:
            self.say_hello()
            self.prove()

    def send(self, data):
        self.sent += data
        self.socket.sendall(data)

    def receive(self, size):
        data = b''
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError('closed')
            data += more
        return data

    def receive_frame(self):
        return self.receive(struct.unpack('>I', self.receive(4))[0])

    def say_hello(self):
        nonce = os.urandom(32)
        self.send(hello(nonce))
        challenge = self.receive_frame()
        self.nonces = nonce + challenge[:32]
        if not hmac.compare_digest(challenge[32:], self.mac(b'ringrad store server proof')):
            raise ConnectionError('another job')

    def mac(self, label):
        return hmac.digest(self.token, label + b'\0' + self.nonces, hashlib.sha256)

    def prove(self):
        self.send(frame(self.mac(b'ringrad store client proof')))
        self.answer()

    def seal(self, payload):
        key = self.mac(b'ringrad store to server')
        tag = hmac.digest(key, struct.pack('<Q', self.num_sent) + payload, hashlib.sha256)
        self.num_sent += 1
        return frame(payload + tag)

    def answer(self):
        sealed = self.receive_frame()
        payload, tag = sealed[:-32], sealed[-32:]
        key = self.mac(b'ringrad store to client')
        expected = hmac.digest(key, struct.pack('<Q', self.num_received) + payload, hashlib.sha256)
        if not hmac.compare_digest(tag, expected):
            raise ConnectionError('an answer that was tampered with')
        self.num_received += 1
        return payload[0], payload[1:]

    def ask(self, operation, name, operand):
        self.send(self.seal(struct.pack('>BH', operation, len(name)) + name.encode() + operand))
        return self.answer()

    def set(self, name, value):
        return self.ask(1, name, value)

    def add(self, name, amount):
        return int(self.ask(4, name, struct.pack('>q', amount))[1])
