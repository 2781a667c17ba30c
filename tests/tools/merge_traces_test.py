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
            paths[-1].write_text(text, errors='surrogateescape')
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
        line = json.dumps(span('last words', 0, 1))
        for end in '', ',', ',\n', ',\n{', ',\n' + line[:20], ',\n{"name": "\udcc3':
            with self.subTest(end=end):
                result, path = self.merge('[\n' + line + end)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual([event['name'] for event in json.loads(path.read_text())], ['last words'])

    def test_refuses_what_is_no_trace(self):
        for text in 'hello', '{}', '[1]', '[' * 100_000:
            result, _ = self.merge(text)
            self.assertEqual(result.returncode, 2)
            self.assertIn('files must be traces', result.stderr)
        one = self.folder / '0.json'
        one.write_text('[]')
        result = subprocess.run(['tools/merge_traces', one, one], capture_output=True, text=True)
        self.assertEqual((result.returncode, one.read_text()), (2, '[]'))

    def test_the_result_is_written_as_all_files_are(self):
        trace = self.folder / 'trace.json'
        trace.write_text(json.dumps([span('a', 0, 1)]))
        (self.folder / 'all.json').write_text('old')
        (self.folder / 'all.json').chmod(0o640)
        (self.folder / 'all.json.tmp').write_text('mine')
        (self.folder / 'link').symlink_to('all.json')
        for target in 'link', '/dev/stdout':
            result = subprocess.run(['tools/merge_traces', self.folder / target, trace], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            text = result.stdout if target == '/dev/stdout' else (self.folder / 'all.json').read_text()
            self.assertEqual(json.loads(text)[0]['name'], 'a')
        self.assertTrue((self.folder / 'link').is_symlink())
        self.assertEqual((self.folder / 'all.json').stat().st_mode & 0o777, 0o640)
        result = subprocess.run(['tools/merge_traces', '/dev/full', trace], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr),
                         (2, 'merge_traces: /dev/full must be writable; got "No space left on device"\n'))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ['all.json', 'all.json.tmp', 'link', 'trace.json'])


if __name__ == '__main__':
    unittest.main()
