"""The programs that README files print run as they are printed."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Printed(unittest.TestCase):
    def test_programs_run(self):
        for readme in ('python/README.md', 'README.md'):
            programs = re.findall(r'```python\n(import ringrad.*?)```', (ROOT / readme).read_text(), re.DOTALL)
            self.assertTrue(programs, readme)
            for program in programs:
                with self.subTest(readme), tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, timeout=120,
                                          cwd=folder, env={**os.environ, 'OMP_NUM_THREADS': '1'})
                    self.assertEqual((done.returncode, done.stderr), (0, ''), program)
                    self.assertRegex(done.stdout, r'^loss 0\.0\d+\n$')


if __name__ == '__main__':
    unittest.main()
