#!/usr/bin/env python3
"""The results of tools/merge_traces for traces of hosts and of simulated GPUs."""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path


def span(name, pid, ts):
    return {'name': name, 'ph': 'X', 'pid': pid, 'tid': 0, 'ts': ts, 'dur': 1}


class MergeTracesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def merge(self, *texts):
        paths = []
        for i, text in enumerate(texts):
            paths.append(self.folder / f'{i}.json')
            paths[-1].write_text(text)
        result = subprocess.run(['tools/merge_traces', self.folder / 'all.json', *paths], capture_output=True, text=True)
        return result, self.folder / 'all.json'

    def test_hosts_keep_their_clock_and_simulated_gpus_begin_with_them(self):
        gpus = {'traceEvents': [{'name': 'process_name', 'ph': 'M', 'pid': 0, 'args': {'name': 'simulated device 0'}},
                                span('kernel', 0, 3)]}
        result, path = self.merge(json.dumps([span('a', 0, 500)]), json.dumps([span('b', 1, 520)]), json.dumps(gpus))
        self.assertEqual(result.returncode, 0, result.stderr)
        a, b, name, kernel = json.loads(path.read_text())
        self.assertEqual((a['ts'], a['pid'], b['ts'], b['pid']), (500, 0, 520, 1))
        self.assertEqual((kernel['ts'], kernel['pid'], name['pid']), (503, 1000, 1000))

    def test_takes_what_a_killed_process_has_left(self):
        result, path = self.merge('[\n' + json.dumps(span('last words', 0, 1)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(path.read_text())[0]['name'], 'last words')

    def test_refuses_what_is_no_trace(self):
        for text in 'hello', '{}', '[1]', '[' * 100_000:
            result, _ = self.merge(text)
            self.assertEqual(result.returncode, 2)
            self.assertIn('files must be traces', result.stderr)
        one = self.folder / '0.json'
        one.write_text('[]')
        result = subprocess.run(['tools/merge_traces', one, one], capture_output=True, text=True)
        self.assertEqual((result.returncode, one.read_text()), (2, '[]'))


if __name__ == '__main__':
    unittest.main()
