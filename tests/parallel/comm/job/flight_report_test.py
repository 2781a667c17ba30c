#!/usr/bin/env python3
"""tools/flight_report on made-up records."""
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
_loader = importlib.machinery.SourceFileLoader('flight_report', 'tools/flight_report')
_spec = importlib.util.spec_from_loader('flight_report', _loader)
flight_report = importlib.util.module_from_spec(_spec)
_loader.exec_module(flight_report)


def record(calls, world_size=3, failure=''):
    """A rank's record: its calls in order, the last of which failed."""
    operations = [{'sequence': i + 1, 'call': call, 'state': 'finished', 'where': f'train.cc:{i + 10}',
                   'begin_us': 10.0 * i, 'took_us': 5.0} for i, call in enumerate(calls)]
    if operations:
        operations[-1]['state'] = 'failed'
    return {'world_size': world_size, 'failure': failure, 'operations': operations}


class DiagnoseTest(unittest.TestCase):
    def diagnose(self, **calls):
        culprit, sentences = flight_report.diagnose({int(r[1:]): record(c) for r, c in calls.items()})
        return culprit, ' '.join(sentences)

    def test_names_the_first_call_that_differs(self):
        culprit, text = self.diagnose(r0=['a', 'b', 'c'], r1=['a', 'x', 'c'], r2=['a', 'b', 'y'])
        self.assertEqual(culprit, 1)
        self.assertIn('is #2: b by ranks 0, 2 at train.cc:11; x by rank 1 at train.cc:11', text)

    def test_names_the_rank_that_stayed_away(self):
        culprit, text = self.diagnose(r0=['a', 'b'], r1=['a', 'b'], r2=['a'])
        self.assertEqual(culprit, 2)
        self.assertIn('Rank 2 never made call #2, b, which others made at train.cc:11.', text)

    def test_names_the_rank_without_a_record(self):
        culprit, text = self.diagnose(r0=['a', 'b'], r2=['a', 'b'])
        self.assertEqual(culprit, 1)
        self.assertIn('Rank 1 left no record', text)
        self.assertIn('Ranks 0, 2 waited in #2, b', text)

    def test_blames_nobody_of_two(self):
        culprit, text = flight_report.diagnose({0: record(['a'], 2), 1: record(['b'], 2)})
        self.assertIsNone(culprit)
        self.assertIn('is #1', text[0])

    def test_blames_nobody_if_all_are_alike(self):
        self.assertEqual(self.diagnose(r0=['a'], r1=['a'], r2=['a']), (None, 'All ranks made the same 1 calls.'))


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def report(self, *arguments):
        limit = 1 << 30  # bytes of address space
        return subprocess.run(['tools/flight_report', str(self.folder), *arguments], text=True, capture_output=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    def write(self, rank, data, group='0', age_s=0):
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        path = self.folder / f'flight_{group}_rank{rank}.json'
        path.write_bytes(data)
        os.utime(path, (time.time() - age_s,) * 2)

    def test_reads_the_records_of_the_latest_run_alone(self):
        for rank in range(4):  # of a larger job, and of an attempt in which rank 2 failed as well
            self.write(rank, record(['a', 'b', 'c', 'x'], 4) | {'job': 'larger'}, age_s=20)
        self.write(2, record(['a', 'b', 'c', 'y'], 3) | {'job': 'first'}, age_s=10)
        self.write(0, record(['z'], 2) | {'job': 'first'}, group='0.split0_1', age_s=10)
        for rank in 0, 1:
            self.write(rank, record(['a', 'b'], 3) | {'job': 'second'}, age_s=rank)
        result = self.report()
        self.assertEqual((result.returncode, result.stderr), (0, ''))
        self.assertIn('group 0, 3 ranks, job second\n', result.stdout)
        self.assertIn('Rank 2 left no record', result.stdout)
        self.assertIn('Look at rank 2 first.', result.stdout)
        self.assertNotIn('split', result.stdout)

    def test_names_a_file_that_is_no_record_in_one_line_and_reads_the_others(self):
        good = record(['a', 'b'])
        text = json.dumps(good).encode()
        for name, data in {
                'empty': b'', 'truncated': text[:-20], 'binary': bytes(range(256)), 'list': b'[]', 'number': b'7',
                'deep': b'[' * 100_000, 'deep object': b'{"a":' * 100_000, 'huge number': b'[' + b'9' * 5000 + b']',
                'huge world': {**good, 'world_size': 10**12}, 'no world': {**good, 'world_size': 2},
                'true world': {**good, 'world_size': True}, 'other world': {**good, 'world_size': 4},
                'no failure': {'world_size': 3, 'operations': []}, 'odd failure': {**good, 'failure': None},
                'odd operations': {**good, 'operations': {'0': 1}}, 'odd operation': {**good, 'operations': [1]},
                'odd sequence': {**good, 'operations': [{**good['operations'][0], 'sequence': 'x'}]},
                'odd time': {**good, 'operations': [{**good['operations'][0], 'begin_us': 10**400}]},
                'odd call': {**good, 'operations': [{**good['operations'][0], 'call': ['a']}]}}.items():
            with self.subTest(name=name):
                self.write(0, good)
                self.write(2, data)
                run = self.report()
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertEqual(run.stderr.count('\n'), 1, run.stderr)
                self.assertIn('flight_0_rank2.json is no record: ', run.stderr)
                self.assertIn('Ranks 1, 2 left no record', run.stdout)

    def test_a_large_world_is_listed_in_part(self):
        self.write(0, record(['a'], 60_000))
        run = self.report()
        self.assertIn('14, 15, 16 and 59983 more left no record', run.stdout)
        self.assertEqual((run.returncode, run.stderr), (0, ''))

    def test_a_terminal_does_not_obey_records(self):
        self.write(0, record(['\x1b[2J'], 2, failure='line\nother\x07 ä'))
        run = self.report()
        self.assertTrue(all(c.isprintable() or c == '\n' for c in run.stdout), run.stdout)
        self.assertIn('rank 0: line\\nother\\x07 ä\n', run.stdout)

    def test_refuses_absurd_counts(self):
        for count in '-1', '0', 'nan', '1' + '0' * 20:
            run = self.report('--last', count)
            self.assertEqual(run.returncode, 2)

    # Bytes of two records are changed, removed and duplicated at random: the result is a report, or
    # one line per file.
    def test_survives_damage(self):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        text = json.dumps(record(['all_reduce(sum)', 'barrier()'])).encode()
        pieces = [b'null', b'-1', b'1e999', b'[', b']', b'{', b'}', b'"', b'0', b'NaN', b'\xff', b'\\ud800', b'true']
        for number in range(1000):
            for rank in 0, 1:
                data = bytearray(text)
                for _ in range(chance.randrange(1, 6)):
                    begin = chance.randrange(len(data) + 1)
                    end = min(begin + chance.randrange(12), len(data))
                    data[begin:end] = chance.choice([b'', bytes(data[begin:end]) * 2, chance.choice(pieces),
                                                     bytes([chance.randrange(256)])])
                self.write(rank, bytes(data))
            with self.subTest(seed=seed, number=number):
                groups, refused = flight_report.read(self.folder)
                self.assertEqual(len(refused) + sum(map(len, groups.values())), 2)
                for records in groups.values():
                    for line in flight_report.table(records, 5):
                        flight_report.printable(line).encode()
                    flight_report.printable(' '.join(flight_report.diagnose(records)[1])).encode()

    def test_says_that_there_is_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(['tools/flight_report', folder], text=True, capture_output=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn('must hold records', run.stderr)


if __name__ == '__main__':
    unittest.main()
