#!/usr/bin/env python3
"""The documents agree with the code: their C++ compiles, and the commands, options and tests that they name exist.

A block of C++ is compiled as it stands, within a namespace of its own, after the includes of
`ringrad/ringrad.h` and `ringrad/parallel.h`. A block that begins with neither a function nor an
include consists of statements: it is compiled as the body of a function. A comment on the line before a block, which no
page shows, declares the names that the text around the block presumes:

    <!-- given: Tensor x, y; -->
"""
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = 'autograd benchmarks core data docs examples kernels nn parallel sim tests tools'.split()
DOCUMENTS = sorted([*ROOT.glob('*.md'), *(page for folder in FOLDERS for page in (ROOT / folder).rglob('*.md'))])
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob('*') if path.is_file()]
CODE = [path for path in FILES if path.suffix != '.md' and path.parts[len(ROOT.parts)] != 'docs']
GIVEN = re.compile(r'<!-- given:?\s((?:(?!-->).)*)-->\s*\Z', re.DOTALL)
IS_WHOLE = re.compile(r'^(#include|__global__)|^\w[\w:<>& ]* \w+\(.*\) \{$', re.MULTILINE)


def blocks_of(document):
    """(language, first line's number, text, what is given) of each fenced block."""
    text = document.read_text()
    for match in re.finditer(r'^```(\w*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL):
        given = GIVEN.search(text[:match.start()])
        yield match[1], text.count('\n', 0, match.start(2)) + 1, match[2], given[1].strip() if given else ''


def source_of(number, place, block, given):
    """A namespace that holds the block, and the includes that come before it."""
    lines = (given + f'\n#line {place}\n' + block).split('\n')
    includes = [line for line in lines if line.startswith('#include')]
    rest = '\n'.join('' if line.startswith('#include') else line for line in lines)
    if not IS_WHOLE.search(block):
        rest = f'[[maybe_unused]] void run() {{ {rest} }}'
    return includes, f'namespace block_{number} {{\nusing namespace ringrad;\n{rest}\n}}\n'


class CodeTest(unittest.TestCase):
    def test_every_block_compiles(self):
        includes, bodies = ['#include "ringrad/parallel.h"', '#include "ringrad/ringrad.h"'], []
        for document in DOCUMENTS:
            for language, line, block, given in blocks_of(document):
                if language == 'cpp':
                    more, body = source_of(len(bodies), f'{line} "{document.relative_to(ROOT)}"', block, given)
                    includes += more
                    bodies.append(body)
        self.assertGreaterEqual(len(bodies), 6)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, 'blocks.cc')
            source.write_text('\n'.join(includes + bodies))
            Path(folder, 'ringrad').symlink_to(ROOT)
            run = subprocess.run(['g++', '-std=c++20', '-march=x86-64-v2', '-fsyntax-only', '-w', f'-I{folder}',
                                  f'-I{ROOT}/sim/include', source], text=True, capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


# --- Commands ---

OURS = r'(?:tools|benchmarks|examples)/[\w.-]+|\./\w+|\.\./(?:\.\./tools|benchmarks)/[\w.-]+'
COMMAND = re.compile(rf'^(?:\w+=\S+ )*({OURS}|bazel|ringrun)(?: (.*))?$')


def commands_of(document):
    """Lines of plain blocks, indented lines, and text in backticks, as far as they are commands."""
    text = document.read_text()
    prose = re.sub(r'^```.*?^```$', '', text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for language, _, block, _ in blocks_of(document) if not language for line in block.split('\n')]
    lines += re.findall(r'^    (\S.*)$', prose, re.MULTILINE)
    lines += [' '.join(quoted.split()) for quoted in re.findall(r'`([^`]+)`', prose)]
    for line in lines:
        command = COMMAND.match(re.split(r'\s{3,}', line.strip())[0])
        if command:
            yield command[1], command[2] or ''


def is_program(name):
    if name in ('bazel', 'ringrun'):
        return True
    place = name.replace('../../tools', 'tools').replace('../benchmarks', 'benchmarks')
    if (ROOT / place).exists():  # tools/layers is a folder of rules
        return True
    folder, target = place.replace('./', 'examples/').split('/')
    return f'name = "{target}"' in (ROOT / folder / 'BUILD.bazel').read_text()


def is_label(label):
    package, _, target = label.removeprefix('//').partition(':')
    if package.endswith('...'):
        return (ROOT / package.removesuffix('...').rstrip('/')).is_dir()
    build = ROOT / package / 'BUILD.bazel'
    names = (target, target.removesuffix('_cuda'))  # a test on GPUs is made by its rule
    return build.is_file() and (not target or any(f'"{name}"' in build.read_text() for name in names))


class CommandTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = '\n'.join(path.read_text(errors='replace') for path in CODE if path.name != Path(__file__).name)
        cls.options = set(re.findall(r'--[a-z][a-z0-9-]+', text))
        cls.options |= {'--' + name for name in re.findall(r'"-?-?([a-z][a-z0-9-]+)"', text)}

    def test_programs_labels_and_options_exist(self):
        num_commands = 0
        for document in DOCUMENTS:
            for program, arguments in commands_of(document):
                num_commands += 1
                with self.subTest(document=document.relative_to(ROOT), command=f'{program} {arguments}'):
                    self.assertTrue(is_program(program), 'there is no such program')
                    for label in re.findall(r'//[\w/.]+(?::\w+)?', arguments):
                        self.assertTrue(is_label(label), f'there is no target {label}')
                    if program != 'bazel':
                        for option in re.findall(r'(?<!\S)--[a-z][a-z0-9-]*', arguments):
                            self.assertIn(option, self.options)
        self.assertGreater(num_commands, 50)


class ExamplesTest(unittest.TestCase):
    def test_each_has_a_row_in_their_readme(self):
        rows = re.findall(r'^\| \[(\w+)\]\(([\w/]+)\.cc\) \| .* \| `(?:\./|bazel run //examples/)(\w+)[^`]*` \|$',
                          (ROOT / 'examples/README.md').read_text(), re.MULTILINE)
        for name, source, command in rows:
            self.assertEqual((source.split('/')[-1], command), (name, name))
        builds = (path.read_text() for path in (ROOT / 'examples').rglob('BUILD.bazel'))
        programs = [name for text in builds for name in re.findall(r'ringrad_binary\(\n    name = "(\w+)"', text)]
        self.assertEqual(sorted(name for name, _, _ in rows), sorted(programs))


class OperatorsTest(unittest.TestCase):
    def test_the_page_lists_what_the_headers_declare(self):
        def declared(headers):
            return {name for header in headers for name in re.findall(
                r'^(?:const )?[\w:]+(?:<[\w:, ]+>)? ([a-z]\w+)\((?!\))', (ROOT / header).read_text(), re.MULTILINE)}
        included = [header for page in ('nn.h', 'linalg.h') for header in
                    re.findall(r'"ringrad/(\w+/[\w/]+[.]h)"', (ROOT / page).read_text())]
        included += ['autograd/broadcast.h', 'core/make_tensor.h']
        tape = {'activation_checkpoint', 'anomaly', 'autocast', 'function', 'gradient_check', 'hooks', 'split_backward'}
        operators = declared(header for header in included
                             if header.startswith('autograd/') and Path(header).stem not in tape)
        listed = {name for row in re.findall(r'^\| (`.*?) \|', (ROOT / 'docs/operators.md').read_text(), re.MULTILINE)
                  for name in re.findall(r'`([a-z]\w+)`', row)}
        gone = {'vmap', 'conv3d', 'max_pool3d', 'fft', 'linalg'}  # in the list of what is not here
        self.assertGreater(len(operators), 150)
        self.assertEqual(operators - listed, {'begin', 'end', 'cross_entropy_gradient'})
        self.assertEqual(listed - gone, (listed - gone) & declared(included))


# --- Files ---

SOURCE = r'[a-z]\w*\.(?:h|cc|cu|cuh|inc)'
# Files of a user's program in examples, of the rule for names, and of other projects.
NOT_OURS = {'file.cc', 'model.cc', 'softmax.cu', 'train.cc', 'foo_cpu.cc', 'foo_cuda.cu', 'nccl.h', 'tuning.cc'}


class FilesTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            prose = re.sub(r'^```.*?^```$', '', document.read_text(), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r'\]\(([^)#\s]+)', prose):
                if not target.startswith(('http:', 'https:')):
                    with self.subTest(document=document.relative_to(ROOT), target=target):
                        self.assertTrue((document.parent / target).exists(), 'there is no such file')

    def test_sources_that_are_named_exist(self):
        names = {path.name for path in FILES} | {path.name for path in ROOT.glob('*.h')}
        folders = [ROOT, ROOT / 'parallel', ROOT / 'parallel/comm', ROOT / 'tests', ROOT / 'sim/include']
        for page in DOCUMENTS + [path for path in CODE if path.suffix in ('.h', '.cc', '.cu', '.cuh', '.bazel', '.bzl')]:
            text = page.read_text()
            if page.suffix != '.md':  # comments alone: includes are the compiler's to check
                text = '\n'.join(re.findall(r'(?://|#) .*|//$', text))
            for name in re.findall(rf'(?<![\w/.<\\-])(?:ringrad/)?((?:[a-z_]+/)*{SOURCE})(?![\w.])', text):
                if name.split('/')[-1] in NOT_OURS:
                    continue
                if '/' in name:
                    exists = any((folder / name).exists() for folder in [*folders, page.parent, page.parent.parent])
                else:
                    exists = name in names or (Path('/usr/include') / name).exists()
                with self.subTest(page=page.relative_to(ROOT), name=name):
                    self.assertTrue(exists, 'there is no such file')


# --- Tests ---

def all_tests():
    """{suite: cases} of the repository: classes and methods in Python."""
    tests = {}
    for path in (ROOT / 'tests').rglob('*_test.cc'):
        text = path.read_text()
        for suite, case in re.findall(r'^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)', text, re.MULTILINE):
            tests.setdefault(suite, set()).add(case)
    for path in (ROOT / 'tests').rglob('*_test.py'):
        for suite, body in re.findall(r'^class (\w+)\(.*?\):\n(.*?)(?=^\S|\Z)', path.read_text(),
                                      re.MULTILINE | re.DOTALL):
            tests.setdefault(suite, set()).update(re.findall(r'    def (test_\w+)', body))
    return tests


class NamedTestsTest(unittest.TestCase):
    def assert_exists(self, name):
        suite, _, case = name.partition('.')
        cases = self.tests.get(suite)
        self.assertIsNotNone(cases, f'there is no suite {suite}')
        self.assertTrue(not case or case in cases, f'{suite} has no {case}')

    def setUp(self):
        self.tests = all_tests()
        self.rules = (ROOT / 'tools/ringrad.bzl').read_text() + (ROOT / 'tools/cuda.bzl').read_text()

    def test_exist(self):
        for document in DOCUMENTS:
            text = document.read_text()
            for name in re.findall(r'`([A-Z]\w*Test(?:\.\w+)?)`', text):
                with self.subTest(document=document.relative_to(ROOT), name=name):
                    self.assert_exists(name)
            for name in re.findall(r'`(?://)?((?:\w+/)*\w+_test(?:\.cc|\.py)?)`', text):
                with self.subTest(document=document.relative_to(ROOT), name=name):
                    file = name if '.' in name else name + '.*'
                    if f'def {name}(' not in self.rules:
                        self.assertTrue(list((ROOT / 'tests').rglob(Path(file).name)), 'there is no such test')

    def test_each_of_the_33_cases_has_one(self):
        text = (ROOT / 'docs/collectives.md').read_text()
        rows = re.findall(r'^\| (\d+)(?:(?: to |, )(\d+))? \| (.*?) \| (.*) \|$', text, re.MULTILINE)
        cases = set()
        for first, last, _, row in rows:
            cases.update(range(int(first), int(last or first) + 1))
            names = re.findall(r'`([A-Z]\w*Test(?:\.\w+)?)`', row)
            commands = re.findall(r'`(tools/\w+)`', row)
            with self.subTest(case=first):
                self.assertTrue(names or commands, 'names no test')
                for name in names:
                    self.assert_exists(name)
                for command in commands:
                    self.assertTrue((ROOT / command).is_file(), command)
                quoted = set(re.findall(r'`(\w+)`', row))
                for word in quoted:  # cases whose suite is not repeated
                    if re.fullmatch(r'(?:[A-Z][a-z0-9]+){3,}', word) and not word.endswith('Test'):
                        self.assertTrue(any(word in cases_of for cases_of in self.tests.values()),
                                        f'there is no test {word}')
        self.assertEqual(cases, set(range(1, 34)))


if __name__ == '__main__':
    unittest.main()
