#!/usr/bin/env python3
"""tools/check proves the library's own plans, names the fault of a damaged one, and reports a file that is no plan."""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DRAW = str(Path('tools/src/draw').absolute())
CHECK = str(Path('tools/src/ringrad-check').absolute())


def check(*paths):
    return subprocess.run([CHECK, *map(str, paths)], text=True, capture_output=True)


def write_run(path, *devices):
    """A run of one micro-batch whose devices d have stage d and take these actions, a second each."""
    actions = [[{'op': op, 'stage': stage, 'micro_batch': 0, 'start_s': i, 'end_s': i + 1} for i, op in enumerate(ops)]
               for stage, ops in enumerate(devices)]
    Path(path).write_text(json.dumps({'schedule': 'mine', 'num_devices': len(devices), 'num_stages': len(devices),
                                      'num_micro_batches': 1, 'devices': actions}))


class CheckCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, Path.cwd())
        os.chdir(folder.name)
        subprocess.run([DRAW, 'ring', '--ranks', '3', '--format', 'json', '-o', 'ring.json'], check=True)

    def test_proves_good_plans(self):
        write_run('run.json', ['forward', 'send_activation', 'recv_gradient', 'backward'],
                  ['recv_activation', 'forward', 'backward', 'send_gradient'])
        write_run('without_messages.json', ['forward', 'backward'], ['forward', 'backward'])
        result = check('ring.json', 'run.json', 'without_messages.json')
        pipeline = 'pipeline by "mine" of 2 stages and 1 micro-batches'
        self.assertEqual(result.stdout, 'ring.json: proved: all_reduce by "ring" over 3 ranks\n'
                                        f'run.json: proved: {pipeline}\n'
                                        f'without_messages.json: proved: {pipeline}\n')
        self.assertEqual((result.returncode, result.stderr), (0, ''))

    def test_names_the_fault_and_goes_on(self):
        plan = json.loads(Path('ring.json').read_text())
        receive = next(step for step in plan['steps'] if step['op'] == 'recv_reduce' and step['step'] == 1)
        receive['op'], receive['peers'] = 'recv', [peer for peer in receive['peers'] if peer != receive['rank']]
        Path('damaged.json').write_text(json.dumps(plan))
        result = check('damaged.json', 'ring.json')
        self.assertRegex(result.stdout, r"^damaged.json: fails: \w+: .*contribution once; got .*\nring.json: proved: ")
        self.assertEqual((result.returncode, result.stderr), (1, ''))

    def test_a_deadlock_of_a_pipeline_is_a_fault(self):
        write_run('circle.json', ['forward', 'recv_gradient', 'send_activation', 'backward'],
                  ['recv_activation', 'forward', 'backward', 'send_gradient'])
        result = check('circle.json')
        self.assertRegex(result.stdout, '^circle.json: fails: deadlock: ')
        self.assertEqual((result.returncode, result.stderr), (1, ''))

    def test_reports_what_is_no_plan(self):
        Path('deep.json').write_text('[' * 100_000 + ']' * 100_000)
        Path('huge.json').write_text('{"collective": "all_reduce", "algorithm": "a", "world_size": 2147483647, '
                                     '"num_chunks": 2147483647, "root": 0, "steps": []}')
        for path, why in (('deep.json', 'must be nested at most 32 deep'),
                          ('huge.json', 'ranks times chunks must be at most 4194304; got'),
                          ('nothing.json', 'the file must be readable; got nothing.json')):
            with self.subTest(path=path):
                result = check(path, 'ring.json')
                self.assertRegex(result.stderr, f'^{path}: .*{why}')
                self.assertIn('ring.json: proved', result.stdout)
                self.assertEqual(result.returncode, 2)
        self.assertEqual(check().returncode, 2)


if __name__ == '__main__':
    unittest.main()
