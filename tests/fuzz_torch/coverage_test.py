#!/usr/bin/env python3
"""Every operator of docs/operators.md is in the random programs, or in EXCLUDED with a reason.

Needs no PyTorch: it reads the pages and sources.
"""
import ast
import re
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / 'docs/operators.md'

RANDOM = 'random numbers: the two libraries have generators of their own'
EXCLUDED = {
    'bernoulli': RANDOM, 'multinomial': RANDOM, 'manual_seed': RANDOM, 'rand': RANDOM, 'randn': RANDOM,
    'uniform': RANDOM, 'normal': RANDOM, 'rand_like': RANDOM, 'randn_like': RANDOM, 'randint': RANDOM,
    'randperm': RANDOM,
    'ctc_loss': 'has no second derivatives; tests/autograd/loss/ctc_loss_test.cc sums over all paths',
    'empty': 'has no values', 'empty_like': 'has no values',
    'alibi_slopes': 'PyTorch has none; tests/autograd/attention/alibi_test.cc compares it with the paper',
    'alibi_bias': 'PyTorch has none; tests/autograd/attention/alibi_test.cc compares it with the paper',
}


def documented():
    """The names in the first column of the tables of operators."""
    names = []
    for section in PAGE.read_text().split('\n## '):
        if '| here |' in section:
            for row in re.findall(r'^\| (`.*?) \|', section, re.MULTILINE):
                names += re.findall(r'`(\w+)`', row)
    return names


def of_run_programs():
    """Names of table rows in the C++ sources."""
    names = []
    for path in HERE.glob('operators_*.cc'):
        text = path.read_text()
        names += re.findall(r'\{"(\w+)",', text) + re.findall(r'^ +RINGRAD_(?:UNARY|BINARY)\((\w+)\),', text, re.MULTILINE)
        names += [name + '_number' for name in re.findall(r'^ +RINGRAD_WITH_NUMBER\((\w+)\),', text, re.MULTILINE)]
    return names


def keys_of(path, wanted):
    """The keys of the dictionaries that a script assigns to the wanted names."""
    return [key.value for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name) and target.id in wanted
            for key in node.value.keys]


class CoverageTest(unittest.TestCase):
    def test_every_documented_operator_is_compared_or_excluded_with_a_reason(self):
        names = documented()
        self.assertGreater(len(names), 200)
        known = of_run_programs()
        self.assertEqual([name for name in names if name not in known and name not in EXCLUDED], [])

    def test_no_exclusion_is_out_of_date(self):
        known, names = of_run_programs(), documented()
        self.assertEqual([name for name in EXCLUDED if name in known or name not in names], [])

    def test_both_sides_know_the_same_operators_once(self):
        peer = keys_of(HERE / 'peer.py', ('OPERATORS',))
        self.assertGreater(len(peer), 200)
        self.assertEqual(sorted(of_run_programs()), sorted(peer))
        self.assertEqual(len(set(peer)), len(peer))

    def test_random_programs_contain_every_operator(self):
        self.assertEqual(sorted(keys_of(HERE / 'peer.py', ('OPERATORS',))),
                         sorted(keys_of(HERE / 'candidates.py', ('CANDIDATES',))))


if __name__ == '__main__':
    unittest.main()
