"""Shared by tests of ringrun: starts it, and checks that no process stays behind."""
import os
import subprocess
import time
import unittest
from pathlib import Path

# The longest that a test looks for something, in seconds. Whole processes have Bazel's limit for the test.
PATIENCE = 200

RINGRUN = str(Path('tools/src/ringrun').absolute())


def ringrun(*arguments, script=None, **options):
    """Runs ringrun to its end; `script` is what each rank does, in bash."""
    program = [] if script is None else ['bash', '-c', script]
    return subprocess.run([RINGRUN, *arguments, *program], text=True, capture_output=True, **options)


def processes_with(word):
    """The processes, zombies excepted, that have this word in their command line."""
    found = []
    for path in Path('/proc').glob('[0-9]*'):
        try:
            if word in path.joinpath('cmdline').read_text():
                found.append(path.name)
        except OSError:
            pass
    return found


class Unique(unittest.TestCase):
    def setUp(self):
        self.word = f'ringrun_test_{os.getpid()}_{self.id()}'

    def assert_nothing_left(self):
        end = time.monotonic() + PATIENCE
        while processes_with(self.word) and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(processes_with(self.word), [])
