#!/usr/bin/env python3
"""tools/flight_report on records that are made up."""
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
import unittest

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

    def test_all_alike(self):
        self.assertEqual(self.diagnose(r0=['a'], r1=['a'], r2=['a']), (None, 'All ranks made the same 1 calls.'))


class ProgramTest(unittest.TestCase):
    def test_says_that_there_is_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(['tools/flight_report', folder], text=True, capture_output=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn('must hold records', run.stderr)


if __name__ == '__main__':
    unittest.main()
