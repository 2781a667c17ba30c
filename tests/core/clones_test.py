#!/usr/bin/env python3
"""Every loop that is compiled for several processors (core/simd.h) has its copies: all instantiations of a template, or
none."""
import re
import subprocess
import unittest

PROGRAM = 'examples/fashion_mnist'
SUFFIX = re.compile(r' \[clone .*')


def template_of(function):
    """Its name without arguments; None for what lies within a function."""
    before = None
    while function != before:
        before, function = function, re.sub(r'<[^<>]*>', '', function)
    plain = function.replace('(anonymous namespace)::', '').replace('->', '')
    found = re.fullmatch(r'(?:.* )?([\w:]+)\(.*\)', plain)
    return found[1] if found and '::{' not in plain else None


class ClonesTest(unittest.TestCase):
    def test_every_instantiation_has_the_copies_of_its_template(self):
        symbols = subprocess.run(['nm', '-C', '--defined-only', PROGRAM], check=True, capture_output=True, text=True).stdout
        if re.search('__[at]san_init|__ubsan_handle', symbols):
            self.skipTest('sanitizers have no copies')
        functions = re.findall(r'^\S+ [iTtuWw] (.*)$', symbols, re.MULTILINE)
        copied = {SUFFIX.sub('', name) for name in functions if '[clone .arch_x86_64_v4]' in name}
        self.assertGreater(len(copied), 100)
        templates = {template_of(name) for name in copied if '<' in name} - {None}
        self.assertEqual([name for name in functions
                          if '[clone' not in name and template_of(name) in templates and name not in copied], [])


if __name__ == '__main__':
    unittest.main()
