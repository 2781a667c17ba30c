#!/usr/bin/env python3
"""Jobs with planned faults, drawn at random: training under ringrun --inject, over shared memory and Gloo, on one host
and on two (whose remote shell stays on this machine), with and without restarts.

    bazel test //tests/parallel/comm/job:fault_soak_test                       a few jobs, as in CI
    bazel test //tests/parallel/comm/job:fault_soak_test --test_output=all --test_env=RINGRAD_SOAK_JOBS=100
                                                     --test_env=RINGRAD_SOAK_SEED=7      many, others

After each job, every survivor has its error within the deadline plus one second, and the headline names the rank with
the planned fault. A job restarted on all ranks ends with the bits of an undisturbed job; a job restarted on fewer ranks
counts every sample once. No process, file or listening port is left.
"""
import os
import random
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from launched import PATIENCE, RINGRUN, processes_with

PROGRAM = str(Path('examples/restart_after_crash').absolute())
NUM_JOBS = int(os.environ.get('RINGRAD_SOAK_JOBS', '5'))
SEED = int(os.environ.get('RINGRAD_SOAK_SEED', '1'))
DEADLINE = 2.0  # s
GRACE = DEADLINE + 1  # s that the launcher waits for survivors: as long as their errors may take
LATE = 5.0  # s by which a delayed rank is late; longer than the deadline
SHM = Path('/dev/shm')


class Job:
    """One job under ringrun, with the time at which each line of its stderr arrived."""

    def __init__(self, folder, word, backend, hosts, ranks, *options):
        self.checkpoint = Path(folder, f'{word}.ckpt')
        with socket.create_server(('127.0.0.1', 0)) as probe:
            self.port = probe.getsockname()[1]
        where = ['-n', str(ranks)]
        if hosts:
            shell = Path(folder, 'shell')
            shell.write_text('#!/bin/bash\nshift; exec "$@"\n')
            shell.chmod(0o755)
            where = ['--hosts', f'ha:{ranks - ranks // 2},hb:{ranks // 2}', '--rsh', str(shell), '--master-addr', '127.0.0.1']
        self.command = [RINGRUN, *where, '--port', str(self.port), '--grace', str(GRACE), *options, PROGRAM,
                        '--backend', backend, '--deadline', str(DEADLINE), '--checkpoint', str(self.checkpoint)]
        self.errors = []  # (time, line)

    def run(self, temporary):
        environment = {**os.environ, 'TMPDIR': temporary, 'OMP_NUM_THREADS': '1'}
        with subprocess.Popen(self.command, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            def listen():
                for line in process.stderr:
                    self.errors.append((time.monotonic(), line))
            listener = threading.Thread(target=listen)
            listener.start()
            self.out = process.stdout.read()
            self.code = process.wait()
            listener.join()
        return self

    def error_text(self):
        """Without what newer Gloos say of each connection that they make."""
        return ''.join(line for _, line in self.errors if '/gloo/transport/' not in line)

    def times_of(self, pattern):
        return [at for at, line in self.errors if re.search(pattern, line)]


class FaultSoak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.temporary = str(Path(self.folder, 'tmp'))
        os.mkdir(self.temporary)
        self.word = f'fault_soak_{os.getpid()}'
        self.parameters = {}  # of an undisturbed run, by backend and number of ranks
        self.slowest = 0.0  # from a fault to the last error, s
        self.kinds = {}

    def parameters_of(self, job):
        found = re.search(r'20 steps, parameters ([0-9a-f]+)', job.out)
        self.assertTrue(found, job.out + job.error_text())
        return found[1]

    def undisturbed(self, backend, ranks):
        if (backend, ranks) not in self.parameters:
            job = Job(self.folder, f'{self.word}_plain_{backend}_{ranks}', backend, False, ranks).run(self.temporary)
            self.assertEqual((job.code, job.error_text()), (0, ''))
            self.parameters[backend, ranks] = self.parameters_of(job)
        return self.parameters[backend, ranks]

    def assert_nothing_left(self, job, shared_before):
        end = time.monotonic() + PATIENCE
        while processes_with(str(job.checkpoint)) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(processes_with(str(job.checkpoint)), [])
        self.assertEqual(os.listdir(self.temporary), [])
        # Other jobs of this machine use MPI; these jobs do not.
        left = {path.name for path in SHM.iterdir() if 'vader_segment' not in path.name} - shared_before
        self.assertEqual(left, set())
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(('127.0.0.1', job.port))  # fails while another process listens there

    def test_random_faults(self):
        rng = random.Random(SEED)
        for number in range(NUM_JOBS):
            self.disturb(number, rng)
        print(f'{NUM_JOBS} jobs, seed {SEED}:', ', '.join(f'{n} {kind}' for kind, n in sorted(self.kinds.items())),
              f'; from a fault to the last error {self.slowest:.2f} s at most (deadline {DEADLINE:g} s)')

    def disturb(self, number, rng):
        backend = rng.choice(['processes', 'gloo'])
        hosts = rng.random() < 0.5
        ranks = rng.choice([2, 3, 4])
        kind = ('kill', 'stop', 'exit', 'abort', 'delay')[number % 5]
        culprit = rng.randrange(ranks)
        when = f'step={rng.randint(1, 20)}' if rng.random() < 0.5 else f'call={rng.randint(2, 40)}'
        value = {'exit': '=5', 'delay': f'={int(1000 * LATE)}ms'}.get(kind, '')
        plan = f'{kind}:{culprit}{value}@{when}'
        restarts = rng.choice(['none', 'all', 'fewer'])
        options = {'none': [], 'all': ['--max-restarts', '1'],
                   'fewer': ['--max-restarts', '1', '--min-ranks', '1']}[restarts]
        undisturbed = self.undisturbed(backend, ranks)

        shared_before = {path.name for path in SHM.iterdir()}
        job = Job(self.folder, f'{self.word}_{number}', backend, hosts, ranks, '--inject', plan, *options).run(
            self.temporary)
        with self.subTest(seed=SEED, number=number, plan=plan, backend=backend, hosts=hosts, ranks=ranks,
                          restarts=restarts, errors=job.error_text()):
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.assert_fails_as_planned(job, kind, culprit, hosts)
            if restarts == 'none':
                self.assertNotIn('parameters', job.out)
                # The launcher ends a rank that is late or stopped. The job's exit code is then that
                # of the rank that blames it.
                self.assertEqual(job.code, {'kill': 137, 'exit': 5, 'abort': 134}.get(kind, 1))
            else:
                self.assertEqual(job.code, 0)
                self.assertIn(f'restart 1 of 1 on {ranks - (restarts == "fewer")} ranks', job.error_text())
            if restarts == 'all':
                self.assertEqual(self.parameters_of(job), undisturbed)
            if restarts == 'fewer':
                self.assertEqual(set(re.findall(r'(\d+ of \d+) samples seen once', job.out)), {'240 of 240'})
            print(f'{number}: {plan}, {backend}, {ranks} ranks on {1 + hosts} hosts, restart on {restarts}: '
                  f'{self.took:.2f} s to the last error', flush=True)
            self.assert_nothing_left(job, shared_before)

    def assert_fails_as_planned(self, job, kind, culprit, hosts):
        headlines = re.findall(r'^ringrun: (.*) failed first', job.error_text(), re.M)
        place = r' on h[ab]' if hosts else ''
        self.assertEqual(len(headlines), 1)
        self.assertRegex(headlines[0], rf'^rank {culprit}{place}$')
        at, = job.times_of(r'^\[\d+.*ringrad inject')
        patience = DEADLINE if kind in ('stop', 'delay') else 0
        # Each survivor's error comes after the fault; the launcher's headline follows when all
        # ranks have ended.
        errors = [time for time in job.times_of(r'^\[\d+.*restart_after_crash: ') if time < at + LATE - 0.5]
        self.assertTrue(errors)
        self.took = max(errors) - at
        self.slowest = max(self.slowest, self.took)
        self.assertLess(self.took, patience + 1)
        headline, = job.times_of('failed first')
        self.assertLess(headline - at, patience + 1 + 2 * GRACE + 1)


if __name__ == '__main__':
    unittest.main()
