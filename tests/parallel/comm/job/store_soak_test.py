#!/usr/bin/env python3
"""Hostile connections to the store of a job whose ranks meet and train meanwhile.

CI makes 500 of them; this makes 10,000:

    bazel test //tests/parallel/comm/job:store_soak_test --test_env=RINGRAD_HOSTILE=10000 --test_output=all

The job must not notice: no error, and the same bits in every round. The process that serves the store must grow by less
than 8 MiB. (Sanitizers keep more freed memory than that; with them the test checks only the job.)
"""
import os
import random
import socket
import struct
import subprocess
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

from launched import RINGRUN
from store_client import StoreClient, frame, hello

RANKS = str(Path('tests/parallel/comm/job/store_soak_ranks').absolute())
NUM_HOSTILE = int(os.environ.get('RINGRAD_HOSTILE', 500))
NUM_THREADS = 8
NUM_WAVES = 10  # the first while the ranks meet, each later one after one more round of the ranks
KEPT = 150  # open connections of each thread; together more than the server allows
MOST_GROWTH = 8 << 20


def resident(process, what):
    """VmRSS or VmHWM of a process, in bytes."""
    for line in Path(f'/proc/{process}/status').read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) << 10
    raise AssertionError(f'no {what}')


class Attacker(threading.Thread):
    """Makes hostile connections, one kind after the other, from a shared count."""

    KINDS = ('silent', 'slow', 'huge', 'truncated', 'wrong secret', 'replayed')

    def __init__(self, address, captured, numbers):
        super().__init__(daemon=True)
        self.address, self.captured, self.numbers = address, captured, numbers
        self.done = Counter()
        self.kept = []
        self.random = random.Random(self.name)
        self.failure = None

    def run(self):
        try:
            for number in self.numbers:
                kind = self.KINDS[number % len(self.KINDS)]
                self.attack(kind)
                self.done[kind] += 1
        except Exception as error:  # the test reports it
            self.failure = error
        finally:
            for connection in self.kept:
                connection.close()

    def attack(self, kind):
        connection = socket.create_connection(self.address)
        try:
            getattr(self, kind.replace(' ', '_'))(connection)
        except OSError:
            pass  # the server has closed the connection
        self.kept.append(connection)
        if len(self.kept) > KEPT:
            self.kept.pop(0).close()
        self.go_on_slowly()

    # Sends one more byte on one of the open connections.
    def go_on_slowly(self):
        try:
            self.random.choice(self.kept).send(b'R')
        except OSError:
            pass

    def silent(self, connection):
        pass

    def slow(self, connection):
        connection.send(hello(bytes(32))[:self.random.randrange(1, 40)])

    def huge(self, connection):
        connection.sendall(struct.pack('>I', 0xffffffff) + bytes(1 << 16))

    def truncated(self, connection):
        connection.send(hello(bytes(32))[:20])
        connection.shutdown(socket.SHUT_WR)

    def wrong_secret(self, connection):
        connection.sendall(hello(os.urandom(32)))
        connection.recv(68)
        connection.sendall(frame(os.urandom(32)))

    def replayed(self, connection):
        connection.sendall(self.captured)


def attack(address, captured, num_hostile):
    """Returns the number of connections of each kind."""
    numbers, lock = iter(range(num_hostile)), threading.Lock()

    def shared_numbers():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            yield number

    attackers = [Attacker(address, captured, shared_numbers()) for _ in range(NUM_THREADS)]
    for attacker in attackers:
        attacker.start()
    for attacker in attackers:
        attacker.join()
        if attacker.failure:
            raise attacker.failure
    return sum((attacker.done for attacker in attackers), Counter())


class StoreSoakTest(unittest.TestCase):
    def test_a_job_does_not_notice_hostile_connections(self):
        job = subprocess.Popen(
            [RINGRUN, '-n', '4', 'bash', '-c',
             f'[ $RANK = 0 ] && echo "store $MASTER_PORT $RINGRAD_TOKEN"; OMP_NUM_THREADS=1 exec {RANKS}'],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.kill)
        port, token = job.stdout.readline().split()[2:]
        address = '127.0.0.1', int(port)
        before = resident(job.pid, 'VmRSS')
        begin = time.monotonic()
        client = StoreClient(address, token)
        self.addCleanup(client.socket.close)
        client.set('captured', b'once')  # and what it has sent is replayed
        done, rounds = Counter(), []
        for _ in range(NUM_WAVES):
            done += attack(address, client.sent, NUM_HOSTILE // NUM_WAVES)
            rounds.append(job.stdout.readline().split()[-1])
        self.assertEqual(sum(done.values()), NUM_HOSTILE)
        seconds = time.monotonic() - begin
        growth = resident(job.pid, 'VmHWM') - before
        client.set('captured', b'twice')
        client.set('stop', b'')
        out, err = job.communicate()
        rounds += [line.split()[-1] for line in out.splitlines()]
        said = [line for line in err.splitlines() if '/gloo/transport/' not in line]  # newer ones name each connection
        self.assertEqual((job.returncode, said), (0, []), out)
        self.assertEqual(len(set(rounds)), 1, rounds)
        print(f'{NUM_HOSTILE} hostile connections in {seconds:.1f} s ({dict(done)}); {len(rounds)} rounds of 4 ranks, '
              f'all with the same bits; ringrun grew by {growth / 2**20:.1f} MiB from {before / 2**20:.1f}')
        if b'__asan_init' not in Path(RINGRUN).read_bytes() and b'__tsan_init' not in Path(RINGRUN).read_bytes():
            self.assertLess(growth, MOST_GROWTH)


if __name__ == '__main__':
    unittest.main()
