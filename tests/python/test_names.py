"""What Python has, against what the C++ headers declare."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ringrad as rr
from ringrad import nn

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / 'python'))
import generate  # noqa: E402


def text_of(header):
    return re.sub(r'//.*', '', (ROOT / header).read_text())


def included(header, folder):
    return re.findall(rf'"ringrad/({folder}/[\w/]+\.h)"', (ROOT / header).read_text())


class Names(unittest.TestCase):
    def test_every_public_operator_is_there(self):
        names = set()
        for header in ['core/make_tensor.h', 'core/random/random.h', *included('nn.h', 'autograd')]:
            names.update(re.findall(r'^(?:Tensor|std::vector<Tensor>) (\w+)\([^;{]*Where where = Where::current\(\)\);',
                                    text_of(header), re.MULTILINE))
        self.assertGreater(len(names), 80)
        self.assertEqual([name for name in sorted(names - generate.SKIPPED.keys()) if not hasattr(rr, name)], [])

    def test_linear_algebra_is_there_with_the_headers_documentation(self):
        for header in included('linalg.h', 'autograd'):
            for name in re.findall(r'^\w+ (\w+)\([^;{]*Where where = Where::current\(\)\);', text_of(header), re.MULTILINE):
                self.assertIn('Throws:', getattr(rr.linalg, name).__doc__)

    def test_every_layer_optimizer_and_other_class_is_there(self):
        names = set()
        for header in included('nn.h', 'nn'):
            classes = re.findall(r'(template <.*>\n)?^class (\w+)(?: : public \w+(?:<.*>)?)? {', text_of(header), re.MULTILINE)
            templates = {name for template, name in classes if template}
            names.update(name for template, name in classes if not template)
            names.update(name for name, template in re.findall(r'^using (\w+) = (\w+)<.*>;', text_of(header), re.MULTILINE)
                         if template in templates)
        self.assertTrue({'Conv2d', 'ConvTranspose3d', 'MaxPool1d'} < names)
        self.assertGreater(len(names), 45)
        missing = [name for name in sorted(names - generate.SKIPPED_CLASSES.keys()) if not hasattr(nn, name)]
        self.assertEqual(missing, [])

    def test_every_error_is_there_with_its_base(self):
        for name in re.findall(r'^struct (\w+Error) : Error', text_of('core/base/error.h'), re.MULTILINE):
            self.assertTrue(issubclass(getattr(rr, name), rr.Error), name)

    def test_documentation_is_that_of_the_header(self):
        self.assertIn('16-bit ones accumulate in float32', rr.conv2d.__doc__)
        self.assertIn('dilation: distance between taps', rr.conv2d.__doc__)  # a field of Conv2dOptions
        bare = [name for name in dir(rr) if callable(getattr(rr, name)) and not isinstance(getattr(rr, name), type)
                and len((getattr(rr, name).__doc__ or '').splitlines()) < 2]
        self.assertEqual(bare, [])
        # nanobind prints the C++ name of a type that it has no conversion for.
        unconverted = [name for module in (rr, nn, rr.linalg) for name in dir(module)
                       if 'std::' in (getattr(module, name).__doc__ or '')]
        self.assertEqual(unconverted, [])

    def test_a_new_operator_needs_no_line_of_python(self):
        with tempfile.TemporaryDirectory() as folder:
            include = Path(folder, 'ringrad')
            include.symlink_to(ROOT)
            before = list(generate.Headers(Path(folder)).functions(['autograd/loss/softmax.h']))
            include.unlink()
            (include / 'autograd/loss').mkdir(parents=True)
            header = (ROOT / 'autograd/loss/softmax.h').read_text()
            new = '/// Twice x.\nTensor twice(const Tensor& x, Where where = Where::current());\n'
            (include / 'autograd/loss/softmax.h').write_text(header.replace('}  // namespace ringrad', new + '}  // namespace ringrad'))
            after = list(generate.Headers(Path(folder)).functions(['autograd/loss/softmax.h']))
            self.assertEqual(after[:-1], before)
            self.assertIn('"twice"', after[-1])
            self.assertIn('Twice x.', after[-1])

    def test_types_of_a_users_file_check(self):
        with tempfile.TemporaryDirectory() as folder:
            right, wrong = Path(folder, 'right.py'), Path(folder, 'wrong.py')
            right.write_text('import ringrad as rr\n'
                             'from ringrad import nn\n'
                             'net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())\n'
                             'x: rr.Tensor = rr.relu(net(rr.zeros([4, 2], device="cpu"))) + 1\n'
                             'q, r = rr.linalg.qr(x)\n'
                             'y: rr.Tensor = q @ r\n'
                             'optimizer = nn.SGD(net.parameters(), learning_rate=0.1)\n'
                             'nn.Adam([nn.ParameterGroup(net.parameters())])\n'
                             'print(x.numpy().mean(), rr.__version__)\n'
                             'blocks = nn.ModuleList([net])\n'
                             'z: rr.Tensor = rr.record("twice", rr.zeros(2, 3), [x], lambda grad: grad * 2)\n'
                             'print([block.describe() for block in blocks], rr.run_ranks(2, lambda comm: comm.rank))\n'
                             'w: rr.Tensor = rr.tensor(x.numpy(), rr.float64).reshape(-1, 2)\n'
                             'print(x[0, :2].sum().item(), rr.plan.make_plan(rr.Collective.all_reduce, "ring", 4))\n')
            wrong.write_text('import ringrad as rr\n'
                             'rr.relu("x")\n')
            check = [sys.executable, '-m', 'mypy', '--strict', '--cache-dir', folder]
            self.assertIn('no issues', subprocess.run([*check, right], capture_output=True, text=True).stdout)
            self.assertIn('incompatible type "str"', subprocess.run([*check, wrong], capture_output=True, text=True).stdout)


if __name__ == '__main__':
    unittest.main()
