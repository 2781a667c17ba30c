#!/usr/bin/env python3
"""docs/operator_samples.md is what expected.json makes of it, and every documented operator takes part. Needs no
PyTorch: it reads pages and sources."""
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / 'fuzz_torch')]
import page  # noqa: E402
from coverage_test import documented  # noqa: E402
from operators import OPERATORS  # noqa: E402

RANDOM = 'random numbers: the two libraries have generators of their own'
NO_SAMPLES = 'PyTorch has no samples of it'
EXCLUDED = {
    'manual_seed': RANDOM, 'uniform_': RANDOM, 'normal_': RANDOM, 'exponential_': RANDOM, 'bernoulli_': RANDOM, 'rand': RANDOM,
    'randn': RANDOM, 'uniform': RANDOM, 'normal': RANDOM, 'randint': RANDOM, 'randperm': RANDOM,
    'svd': 'signs of vectors are a choice; tests/fuzz_torch compares functions of the factors',
    'eigh': 'signs of vectors are a choice; tests/fuzz_torch compares functions of the factors',
    **dict.fromkeys(('relu_gradient', 'add_relu', 'add_', 'sub_', 'mul_', 'div_', 'copy_', 'fill_', 'zero_', 'assign',
                     'to_layout', 'alibi_slopes', 'alibi_bias', 'rotary_embedding', 'jacobian', 'hessian', 'jvp'), NO_SAMPLES),
}


class PageTest(unittest.TestCase):
    def test_the_page_is_that_of_the_last_run(self):
        self.assertEqual(page.PAGE.read_text(), page.rendered(page.read()))

    def test_expected_json_knows_the_operators_of_the_table(self):
        self.assertEqual(list(page.read()), ['torch', *OPERATORS])

    def test_every_documented_operator_takes_part_or_is_excluded_with_a_reason(self):
        rows = [row for rows in OPERATORS.values() for row in (rows if isinstance(rows, list) else [rows])]
        ours = {row.ours.split('.')[-1] for row in rows}
        self.assertGreater(len(ours), 150)
        self.assertEqual([name for name in documented() if name not in ours and name not in EXCLUDED], [])
        self.assertEqual([name for name in EXCLUDED if name in ours or name not in documented()], [])

    def test_statuses_survive_packing(self):
        for text in ('', '=', '===r-', '=' * 120 + 'x'):
            self.assertEqual(page.expanded(page.packed(text)), text)

    def test_what_a_run_finds_worse(self):
        from run import worse
        for before, now in ('=x', '=r', '=-', '=s', 'rx', '-x', 'ra', '-a'):
            self.assertTrue(worse(before, now), before + now)
        for before, now in ('==', 'r=', 'x=', '-=', 'xx', 'r-', '-r', 'xr', 'aa', 'ar'):
            self.assertFalse(worse(before, now), before + now)


if __name__ == '__main__':
    unittest.main()
