#!/usr/bin/env python3
"""What tools/new writes compiles, is proved, and can be filled in; and it refuses what it cannot do.

Each test works on a copy of the sources, in which it runs the copied command. Programs are built by g++ without
optimisation: planners depend on little, and an operator's formula stands in a header.
"""
import re
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = 'autograd core kernels parallel/plan sim tests/autograd tests/kernels tests/parallel/plan tests/reference'
FILES = 'tools/new docs/operators.md tests/testing.h ringrad.h nn.h parallel.h'
COLLECTIVE, PIPELINE = 'parallel/plan/collective', 'parallel/plan/pipeline'
GOOGLETEST = '/usr/src/googletest/googletest'
MARK = 'Fill in' + ':'


def compile_each(sources, include, folder, *options):
    """Compiles the sources, two at a time, to objects in the folder; the objects."""
    def compile_one(source):
        target = Path(folder, re.sub(r'\W', '_', str(source)) + '.o')
        run = subprocess.run(['g++', '-std=c++20', '-march=x86-64-v2', '-fopenmp', '-Wall', '-Wextra', '-Werror',
                              f'-I{include}', f'-I{include}/ringrad/sim/include', '-isystem', f'{GOOGLETEST}/include',
                              *options, '-c', source, '-o', target], text=True, capture_output=True, check=False)
        if run.returncode != 0:
            raise AssertionError(run.stderr[:4000])
        return target
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compile_one, sources))


class NewTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.root = self.folder / 'ringrad'
        for name in FOLDERS.split():
            shutil.copytree(ROOT / name, self.root / name)
        for name in FILES.split():
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.before = self.tree()

    def tree(self):
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob('*') if path.is_file()}

    def changed(self):
        return {path for path, data in self.tree().items() if self.before.get(path) != data}

    def command(self, *arguments):
        return subprocess.run([self.root / 'tools/new', *arguments], text=True, capture_output=True, check=False)

    def new(self, *arguments):
        """Runs the command; the (path, line) of each place that it says must be filled in."""
        before = self.tree()
        result = self.command(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        told = set(re.findall(r'^(?:made|changed) +(\S+)$', result.stdout, re.MULTILINE))
        self.assertEqual(told, {path for path, data in self.tree().items() if before.get(path) != data})
        places = re.findall(rf'^(\S+):(\d+): {MARK}', result.stdout, re.MULTILINE)
        for path, line in places:
            self.assertIn(MARK, (self.root / path).read_text().split('\n')[int(line) - 1])
        return places

    def fill_in(self, path, old, new):
        file = self.root / path
        text = file.read_text()
        self.assertEqual(text.count(old), 1, f'{old} in {path}')
        file.write_text(text.replace(old, new))

    def run_program(self, main, sources=(), objects=()):
        """What a program of this main() prints, built with these sources of the copy."""
        (self.folder / 'main.cc').write_text(main)
        objects = [*objects, *compile_each([self.folder / 'main.cc', *(self.root / source for source in sources)],
                                           self.folder, self.folder)]
        subprocess.run(['g++', *objects, '-fopenmp', '-o', self.folder / 'program'], check=True)
        run = subprocess.run([self.folder / 'program'], text=True, capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def assert_lines_fit(self):
        for path in self.changed():
            old = set(self.before.get(path, b'').decode().split('\n'))
            for line in (self.root / path).read_text().split('\n'):
                self.assertTrue(len(line) <= 100 or line in old, f'{path}: {line}')


# --- Operators ---

OPERATOR_MAIN = '''
#include <cmath>
#include "ringrad/kernels/elementwise/elementwise_unary_ops.h"
using Op = ringrad::ops::SoftRelu;
int main() {
  for (const double x : {-20., -1., 0., 0.5, 30.}) {
    const double slope = (Op::forward(x + 1e-6) - Op::forward(x - 1e-6)) / 2e-6;
    if (std::abs(Op::forward(x) - std::log1p(std::exp(x))) > 1e-12) return 1;
    if (std::abs(Op::backward(3.0, x) - 3 * slope) > 1e-6) return 2;
  }
}
'''
OPERATOR_TESTS = ['tests/autograd/elementwise_test.cc', 'tests/kernels/elementwise/elementwise_unary_test.cc']
OPERATOR_FILES = ['kernels/elementwise/elementwise_unary_ops.h', 'kernels/elementwise/elementwise_unary_rows.inc',
                  'autograd/elementwise.h', 'autograd/elementwise.cc', 'docs/operators.md', *OPERATOR_TESTS]
OPERATOR_SOURCES = ['autograd/elementwise.cc', 'kernels/elementwise/elementwise_unary.cc']
FORMULA, DERIVATIVE = 'where(x > 0, x, 0) + log1p(exp(-abs(x)))', 'grad / (1 + exp(-x))'
REFERENCE = 'std::log1p(std::exp(x))'


class NewOperatorTest(NewTest):
    def compile_sources(self, *options):
        compile_each([self.root / name for name in OPERATOR_SOURCES], self.folder, self.folder, *options)

    def check_sources(self):
        self.compile_sources('-fsyntax-only')
        compile_each([self.root / name for name in OPERATOR_TESTS], self.folder, self.folder, '-fsyntax-only')

    def test_computes_its_formula_if_it_is_given_one(self):
        places = self.new('operator', 'soft_relu', '--formula', FORMULA, '--derivative', DERIVATIVE,
                          '--reference', REFERENCE, '--range', '-3', '3')
        self.assertEqual(places, [])
        self.assertEqual(self.changed(), set(OPERATOR_FILES))
        self.assert_lines_fit()
        self.assertIn('| `soft_relu` | — | [autograd/elementwise.h](../autograd/elementwise.h) |\n',
                      (self.root / 'docs/operators.md').read_text())
        self.run_program(OPERATOR_MAIN)
        self.compile_sources()

    def test_is_a_square_until_it_is_filled_in(self):
        places = self.new('operator', 'soft_relu')
        self.assertEqual(len(places), 4)
        self.check_sources()
        ops = (self.root / OPERATOR_FILES[0]).read_text()
        row = ops[ops.index('struct SoftRelu'):ops.index('struct LogicalNot')]
        self.fill_in(OPERATOR_FILES[0], row, row.replace('x * x;', FORMULA + ';').replace('grad * x * 2', DERIVATIVE))
        self.run_program(OPERATOR_MAIN)

    def test_formulas_that_read_the_output_and_long_ones_fit_the_lines(self):
        self.new('operator', 'a_rather_long_name_of_a_function', '--saves', 'output', '--formula',
                 '1 / (1 + exp(-x)) + 0 * x + 0 * x + 0 * x', '--derivative', 'grad * (y * (1 - y)) + 0 * y',
                 '--reference', '1 / (1 + std::exp(-x)) + 0 * x')
        self.new('operator', 'second', '--range', '1', '2.5')
        self.assert_lines_fit()
        self.check_sources()


# --- Algorithms and schedules ---

COLLECTIVES = ['all_reduce', 'reduce_scatter', 'all_gather', 'broadcast', 'reduce', 'all_to_all']
ALGORITHM_MAIN = '''
#include <iostream>
#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/check.h"
using namespace ringrad;
int main() {
  for (const Collective collective : kCollectives) {
    const std::string algorithm = algorithm_names(collective).back();
    for (int n = 1; n <= 9; ++n)
      for (int root = 0; root < (has_root(collective) ? n : 1); ++root)
        if (const auto wrong = plan_check(make_plan(collective, algorithm, n, {.root = root}))) {
          std::cout << algorithm << ": " << *wrong << std::endl;
          return 1;
        }
    std::cout << name(collective) << ' ' << algorithm << std::endl;
  }
  std::cout << num_steps(make_plan(Collective::all_reduce, "toy_all_reduce", 4)) << std::endl;
}
'''
SCHEDULE_MAIN = '''
#include <iostream>
#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
using namespace ringrad;
int main() {
  for (int p = 1; p <= 4; ++p)
    for (int m = 1; m <= 8; ++m) {
      const PipelinePlan plan = with_messages(make_pipeline_plan("wave", p, 1, m));
      if (const auto wrong = pipeline_check(plan, 2)) {
        std::cout << *wrong << std::endl << plan;
        return 1;
      }
      if (peak_kept(plan).back() != 1) return 2;
    }
  std::cout << pipeline_schedule_names().back() << std::endl;
}
'''


class NewPlanTest(NewTest):
    @classmethod
    def setUpClass(cls):
        """Objects of what stays as it is."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        Path(folder.name, 'ringrad').symlink_to(ROOT)
        planners = [path for path in sorted((ROOT / COLLECTIVE).glob('*.cc')) if path.name != 'algorithms.cc']
        pipelines = [ROOT / PIPELINE / f'pipeline_{part}.cc' for part in ('check', 'plan')]
        pipelines.append(ROOT / 'parallel/plan/predict/pipeline_cost.cc')
        objects = compile_each([*planners, *pipelines], folder.name, folder.name)
        cls.planners, cls.pipelines = objects[:len(planners)], objects[len(planners):]
        cls.googletest = compile_each([f'{GOOGLETEST}/src/gtest-all.cc', f'{GOOGLETEST}/src/gtest_main.cc'],
                                      folder.name, folder.name, f'-I{GOOGLETEST}', '-w')

    def run_tests(self, sources, objects):
        self.run_program('', sources, [*objects, *self.googletest])

    def test_algorithms_of_every_collective_are_proved_and_listed(self):
        for collective in COLLECTIVES:
            places = self.new('algorithm', collective, f'toy_{collective}')
            self.assertEqual({Path(path).name for path, _ in places},
                             {f'toy_{collective}_plan.h', f'toy_{collective}_plan.cc'})
        self.assert_lines_fit()
        sources = [f'{COLLECTIVE}/toy_{collective}_plan.cc' for collective in COLLECTIVES]
        sources.append(f'{COLLECTIVE}/algorithms.cc')
        output = self.run_program(ALGORITHM_MAIN, sources, self.planners).split('\n')
        self.assertEqual(output[:-2], [f'{collective} toy_{collective}' for collective in COLLECTIVES])
        self.assertEqual(output[-2], '2')
        for collective in 'all_reduce', 'broadcast':  # without a root, and with one
            self.run_tests([f'{COLLECTIVE}/toy_{collective}_plan.cc',
                            f'tests/{COLLECTIVE}/toy_{collective}_plan_test.cc'], self.planners)

    def test_an_algorithm_can_be_filled_in(self):
        for collective in COLLECTIVES:
            self.new('algorithm', collective, f'toy_{collective}')
        path = f'{COLLECTIVE}/toy_all_reduce_plan.cc'
        text = (self.root / path).read_text()
        steps = text[text.index(f'  // {MARK}'):text.rindex('  return plan;')]
        self.fill_in(path, steps, '''  for (int r = 0; r + 1 < world_size; ++r) {  // up the line of ranks, and down again
    plan.send(r, r, 0, r + 1);
    plan.recv_reduce(r, r + 1, 0, {r, r + 1});
  }
  for (int r = world_size - 1; r > 0; --r) {
    plan.send(2 * world_size - 2 - r, r, 0, r - 1);
    plan.recv(2 * world_size - 2 - r, r - 1, 0, r);
  }
''')
        self.fill_in(path, '#include <numeric>\n', '')
        sources = [f'{COLLECTIVE}/toy_{collective}_plan.cc' for collective in COLLECTIVES]
        output = self.run_program(ALGORITHM_MAIN, [*sources, f'{COLLECTIVE}/algorithms.cc'], self.planners)
        self.assertEqual(output.split('\n')[-2], '6')

    def test_a_schedule_is_proved_and_can_be_filled_in(self):
        self.new('schedule', 'first')
        places = self.new('schedule', 'wave')
        self.assertEqual({Path(path).name for path, _ in places}, {'wave_schedule.h', 'wave_schedule.cc'})
        self.assert_lines_fit()
        known = [*self.planners, *self.pipelines]
        self.run_tests([f'{PIPELINE}/wave_schedule.cc', f'tests/{PIPELINE}/wave_schedule_test.cc'], known)
        loop = '    for (int b = 0; b < num_micro_batches; ++b) '
        self.fill_in(f'{PIPELINE}/wave_schedule.cc', 'actions.push_back({forward, device, b});\n' + loop,
                     '{\n actions.push_back({forward, device, b});\n ')
        self.fill_in(f'{PIPELINE}/wave_schedule.cc', 'actions.push_back({backward, device, b});\n',
                     'actions.push_back({backward, device, b});\n}\n')
        sources = [f'{PIPELINE}/{name}.cc' for name in ('pipeline_schedules', 'first_schedule', 'wave_schedule')]
        self.assertEqual(self.run_program(SCHEDULE_MAIN, sources, known), 'wave\n')


# --- Errors ---

class NewErrorsTest(NewTest):
    def assert_refused(self, status, text, *arguments):
        with self.subTest(arguments=arguments):
            before = self.tree()
            result = self.command(*arguments)
            self.assertEqual(result.returncode, status, result.stdout)
            self.assertIn(text, result.stderr)
            self.assertEqual(self.tree(), before)

    def test_wrong_arguments_are_refused(self):
        self.assert_refused(2, 'required')
        self.assert_refused(2, "invalid choice: 'layer'", 'layer', 'foo')
        self.assert_refused(2, "invalid choice: 'gather'", 'algorithm', 'gather', 'star')
        for name in 'Foo', '2f2b', 'a-b', 'x_', 'a__b', '', 'x' * 33, '../x':
            self.assert_refused(2, 'a name must be snake_case', 'schedule', name)
        for name in 'double', 'all', 'pipeline':
            self.assert_refused(2, 'must not be a word of C++ or of an option', 'algorithm', 'reduce', name)
        self.assert_refused(2, "got 'a + (b'", 'operator', 'foo', '--formula', 'a + (b')
        self.assert_refused(2, '--reference must be an expression', 'operator', 'foo', '--reference', 'x; y')
        self.assert_refused(2, '--range must be two numbers that grow; got 2 and 2', 'operator', 'foo',
                            '--range', '2', '2')
        self.assert_refused(2, '--saves output must come with --derivative', 'operator', 'foo', '--saves', 'output')

    def test_names_that_exist_are_refused(self):
        self.assert_refused(2, 'autograd/elementwise.h declares', 'operator', 'gelu')
        self.assert_refused(2, 'autograd/matmul/matmul.h declares', 'operator', 'matmul')
        self.assert_refused(2, 'algorithms.cc lists', 'algorithm', 'all_reduce', 'two_shot')
        self.assert_refused(2, 'ring_plan.h must not exist yet', 'algorithm', 'broadcast', 'ring')
        self.assert_refused(2, 'pipeline_schedules.cc lists', 'schedule', 'zero_bubble')
        self.assert_refused(2, 'pipeline_plan.h declares', 'schedule', 'with_messages')
        self.new('algorithm', 'reduce', 'star')
        self.assert_refused(2, 'algorithms.cc lists', 'algorithm', 'reduce', 'star')

    def test_a_missing_place_is_named(self):
        self.fill_in(OPERATOR_FILES[1], 'RINGRAD_UNARY(ops::LogicalNot);\n', '')
        self.assert_refused(1, 'elementwise_unary_rows.inc must hold', 'operator', 'foo')
        self.fill_in(f'{PIPELINE}/pipeline_schedules.cc', 'constexpr Schedule kSchedules[]', 'const Schedule kAll[]')
        self.assert_refused(1, 'pipeline_schedules.cc must hold', 'schedule', 'foo')
        (self.root / COLLECTIVE / 'algorithms.cc').unlink()
        self.assert_refused(1, 'algorithms.cc must exist; nothing was changed', 'algorithm', 'reduce', 'foo')


class FilledInTest(unittest.TestCase):
    def test_no_place_of_this_repository_is_left_to_fill_in(self):
        for folder in 'autograd', 'kernels', 'parallel', 'tests':
            for path in (ROOT / folder).rglob('*'):
                if path.suffix in ('.h', '.cc', '.inc'):
                    self.assertNotIn(MARK, path.read_text(), path)


del NewTest  # has no tests of its own


if __name__ == '__main__':
    unittest.main()
