#!/usr/bin/env python3
"""tools/docs finds links that lead nowhere and public symbols without documentation, and finds none of either here."""
import importlib.machinery
import importlib.util
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = '/usr/bin/python3'  # Debian's, which has Debian's modules


def is_installed():
    imports = subprocess.run([PYTHON, '-c', 'import markdown, pygments'], capture_output=True, check=False)
    return imports.returncode == 0 and shutil.which('doxygen')


@unittest.skipUnless(is_installed(), 'needs tools/setup --docs')
class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def run_on(self, files, *options):
        """The command on a small repository of these files; (status, stderr)."""
        for name, text in {'docs/own_kernel.md': '', **files}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / 'tools').mkdir(exist_ok=True)
        shutil.copy(ROOT / 'tools/docs', self.root / 'tools/docs')
        (self.root / 'tools/setup').write_text('#!/bin/sh\n')
        (self.root / 'tools/setup').chmod(0o755)
        run = subprocess.run([PYTHON, self.root / 'tools/docs', *options], text=True, capture_output=True, check=False)
        return run.returncode, run.stderr

    def test_this_repository_has_no_gaps(self):
        run = subprocess.run([PYTHON, ROOT / 'tools/docs', '--check'], text=True, capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_documented_symbols_and_links_pass(self):
        status, errors = self.run_on({
            'README.md': '# Toy\n[a](core/a.h), [part](docs/b.md#a-part)\n', 'docs/b.md': '# B\n\n## A part\n',
            'ringrad.h': '#include "ringrad/core/a.h"\n',
            'core/a.h': 'namespace toy {\n/// Adds.\nint add(int a, int b);\nint add(long a, long b);\n}\n'})
        self.assertEqual(status, 0, errors)
        page = (self.root / '.cache/docs/index.html').read_text()
        self.assertIn('href="core/a.h.html"', page)
        self.assertIn('href="docs/b.html#a-part"', page)
        self.assertTrue((self.root / '.cache/docs/core/a.h.html').exists())

    def test_a_link_that_leads_nowhere_is_named(self):
        status, errors = self.run_on({'README.md': '[gone](docs/gone.md) [no part](docs/b.md#part)\n',
                                      'docs/b.md': '# B\n', 'ringrad.h': ''})
        self.assertEqual(status, 1)
        self.assertIn('index.html: docs/gone.md', errors)
        self.assertIn('index.html: docs/b.html#part', errors)

    def test_a_folder_of_others_is_not_erased(self):
        other = self.root / 'other'
        other.mkdir()
        (other / 'precious').write_text('data')
        files = {'README.md': '# Toy\n', 'ringrad.h': ''}
        status, errors = self.run_on(files, '--out', other)
        self.assertEqual(status, 2)
        self.assertIn('--out must be a new or empty folder', errors)
        self.assertEqual((other / 'precious').read_text(), 'data')
        new = self.root / 'new'
        for _ in range(2):  # its own is replaced
            self.assertEqual(self.run_on(files, '--out', new), (0, f'docs: wrote {new}/index.html\n'))

    def test_an_undocumented_symbol_is_named(self):
        status, errors = self.run_on({
            'README.md': '# Toy\n', 'ringrad.h': '#include "ringrad/core/a.h"\n',
            'core/a.h': 'namespace toy {\n/// Adds.\nint add(int a, int b);\n\nint sub(int a, int b);\n}\n'})
        self.assertEqual(status, 1)
        self.assertIn('core/a.h: toy::sub', errors)
        self.assertNotIn('toy::add', errors)


if __name__ == '__main__':
    unittest.main()
