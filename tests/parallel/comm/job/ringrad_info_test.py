#!/usr/bin/env python3
"""ringrad-info: its output for a machine and for groups on it."""
import json
import subprocess
import unittest
from pathlib import Path

from launched import ringrun

INFO = str(Path('tools/src/ringrad-info').absolute())


def info(*arguments):
    return subprocess.run([INFO, *arguments], text=True, capture_output=True)


class RingradInfo(unittest.TestCase):
    def check_group(self, group, ranks, world_size):
        self.assertEqual((group['ranks'], group['world_size']), (ranks, world_size))
        self.assertGreater(group['alpha_s'], 0)
        self.assertGreater(group['beta_s_per_byte'], 0)
        for collective in 'all_reduce', 'reduce_scatter', 'all_gather', 'broadcast', 'reduce':
            choices = group['choices'][collective]
            self.assertEqual(choices[0]['from_bytes'], 4)
            self.assertEqual(choices[-1]['to_bytes'], 1 << 30)
            for one, following in zip(choices, choices[1:]):
                self.assertEqual(2 * one['to_bytes'], following['from_bytes'])
                self.assertNotEqual(one['algorithm'], following['algorithm'])

    def test_describes_groups_of_threads(self):
        result = info('--json', '--ranks', '2,3')
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(result.stdout)
        self.assertGreater(said['machine']['processors'], 0)
        for group, world_size in zip(said['groups'], (2, 3), strict=True):
            self.check_group(group, 'threads', world_size)
            self.assertEqual(group['choices']['all_reduce'][0]['algorithm'], 'eager')

    def test_shows_sums_in_another_order(self):
        group = json.loads(info('--json', '--ranks', '4', '--order', 'tree').stdout)['groups'][0]
        self.assertEqual([one['algorithm'] for one in group['choices']['all_reduce']], ['halving_doubling'])

    def test_groups_of_processes_print_once(self):
        result = ringrun('-n', '2', INFO, '--json')
        self.assertEqual(result.returncode, 0, result.stderr)
        said = json.loads(''.join(line.removeprefix('[0] ') for line in result.stdout.splitlines(True)))
        self.check_group(said['groups'][0], 'processes', 2)

    def test_says_it_in_words(self):
        result = info('--ranks', '2')
        self.assertIn('2 threads, tensors on cpu, sums in canonical order', result.stdout)
        self.assertRegex(result.stdout, r'all_reduce +4 B to 1 KiB +eager')

    def test_says_that_it_could_not_print(self):
        for arguments in ['--ranks', '2'], ['--help']:
            with open('/dev/full', 'wb') as full:
                result = subprocess.run([INFO, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr),
                             (1, 'stdout must be writable; got No space left on device\n'))

    def test_refuses_what_makes_no_sense(self):
        for arguments in ['--ranks', '1'], ['--device', 'tpu'], ['--order', 'random'], ['--nonsense']:
            result = info(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(arguments[0], result.stderr)


if __name__ == '__main__':
    unittest.main()
