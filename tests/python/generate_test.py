#!/usr/bin/env python3
"""What python/generate.py writes from the headers: every public function and class has a binding."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'python'))
import generate  # noqa: E402


def headers(folder):
    """Those of this folder that nn.h includes, as text without comments."""
    for name in re.findall(rf'"ringrad/({folder}/.*\.h)"', (ROOT / 'nn.h').read_text()):
        yield name, re.sub(r'//.*', '', (ROOT / name).read_text())


class GenerateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            include = Path(folder, 'include')
            include.mkdir()
            (include / 'ringrad').symlink_to(ROOT)
            subprocess.run([sys.executable, ROOT / 'python/generate.py', include, folder], check=True)
            cls.written = {path.stem: path.read_text() for path in Path(folder).glob('*.cc')}

    def test_every_public_operator_is_bound(self):
        missing, count = [], 0
        for header, text in headers('autograd'):
            for name in re.findall(r'^(?:Tensor|std::vector<Tensor>) (\w+)\([^;{]*Where where = Where::current\(\)\);', text,
                                   re.MULTILINE):
                count += 1
                if name not in generate.SKIPPED and f'"{name}"' not in self.written['operators']:
                    missing.append(f'{header}: {name}')
        self.assertGreater(count, 100)
        self.assertEqual(missing, [])

    def test_linear_algebra_is_bound_with_results_that_unpack(self):
        written = self.written['linalg']
        for header in re.findall(r'"ringrad/(autograd/linalg/.*\.h)"', (ROOT / 'linalg.h').read_text()):
            text = re.sub(r'//.*', '', (ROOT / header).read_text())
            functions = re.findall(r'^\w+ (\w+)\([^;{]*Where where = Where::current\(\)\);', text, re.MULTILINE)
            self.assertGreater(len(functions), 3)
            self.assertEqual([name for name in functions if f'm.def("{name}"' not in written], [])
            for result in re.findall(r'^struct (\w+) {', text, re.MULTILINE):
                self.assertIn(f'(m, "{result}")', written)
        self.assertIn('.def_ro("vh", &ringrad::linalg::SvdResult::vh, R"doc((..., k, n): orthonormal rows)doc")', written)
        self.assertIn('make_tuple(self.u, self.s, self.vh)', written)

    def test_every_layer_optimizer_and_other_class_is_bound(self):
        missing, count = [], 0
        for header, text in headers('nn'):
            classes = re.findall(r'(template <.*>\n)?^class (\w+)(?: : public \w+(?:<.*>)?)? {', text, re.MULTILINE)
            templates = [name for template, name in classes if template]
            names = [name for template, name in classes if not template]
            names += [name for name, template in re.findall(r'^using (\w+) = (\w+)<.*>;', text, re.MULTILINE)
                      if template in templates]
            for name in names:
                count += 1
                if name not in generate.SKIPPED_CLASSES and f'(m, "{name}"' not in self.written['nn']:
                    missing.append(f'{header}: {name}')
        self.assertGreater(count, 45)
        self.assertEqual(missing, [])


if __name__ == '__main__':
    unittest.main()
