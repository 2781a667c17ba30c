#!/usr/bin/env python3
"""Every program that scripts and tests call is in a package that tools/setup installs, or that no Debian lacks.

Calls are found by their position: the first word of a command in shell scripts and in strings of Python tests, the
first word of a list in Python, and the first argument of exec in C++. Such a word counts if this machine has a program
of that name; dpkg names its package. A package counts as installed if setup names it (for a script: with the options
with which the script calls setup), if one of these depends on it, or if it is essential or required, and so part of
`debootstrap --variant=minbase`.
"""
import re
import shutil
import subprocess
import unittest
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = [ROOT / '.ci/run', *sorted(path for path in (ROOT / 'tools').iterdir() if path.is_file())]
TESTS = [path for path in sorted((ROOT / 'tests').rglob('*'))
         if path.suffix in ('.py', '.cc', '.h', '.sh') and path != Path(__file__).resolve()]
CALLERS = {'host_tool': 'test_two_hosts', 'test_bare': 'bare.bash'}  # whose set-up counts

WORD = r'([a-z][\w.+-]*)(?=[\s;)"\'|&]|$)'
BEFORE = r'(?:^|[|;(`]|&&|\bthen|\bdo|\belse|\bexec|\bsudo|\bxargs|!|\$\()[ \t]*(?:\w+=\S* )*'
# Shell words that are also programs, and words of data: not calls.
OWN_WORDS = {'case', 'command', 'echo', 'exec', 'exit', 'export', 'file', 'if', 'in', 'local', 'printf', 'read', 'red',
             'set', 'shift', 'test', 'then', 'time', 'trap', 'type', 'until', 'wait', 'while', 'write'}


def shell_words(text):
    text = re.sub(r'(?:^|\s)#.*$', '', text, flags=re.MULTILINE)
    return set(re.findall(BEFORE + WORD, text, re.MULTILINE))


def python_words(text):
    text = re.sub(r'^\s*#[^\n]*$|"""(?:.|\n)*?"""', '', text, flags=re.MULTILINE)
    words = set(re.findall(r'\[\s*[\'"]' + WORD, text))
    words |= set(re.findall(r'\b(?:run|Popen|call|ip|which)\(\s*[\'"]' + WORD, text))
    for string in re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"", text):
        string = string[0] or string[1]
        if re.search(r'[;|&$]|^(?:exec|sleep|kill|echo) ', string):
            words |= shell_words(string)
    return words


def words_of(path):
    text = path.read_text()
    if path.suffix in ('.cc', '.h'):
        return set(re.findall(r'(?:exec[lv]p?e?|popen|system)\(\s*"' + WORD, text))
    if path.suffix == '.py' or 'python3' in text.split('\n', 1)[0]:
        return python_words(text)
    return shell_words(text)


def packages_of_setup(options=()):
    """The base packages of tools/setup, and those of its options."""
    names = subprocess.run([ROOT / 'tools/setup', '--names', *options], text=True, capture_output=True, check=True)
    return set(names.stdout.split())


def dpkg(*arguments):
    return subprocess.run(arguments, text=True, capture_output=True, check=False).stdout


@lru_cache(None)
def all_dependencies():
    """{package: its dependencies} of all installed packages; all alternatives count."""
    needs, provided = {}, {}
    for line in dpkg('dpkg-query', '-W', '-f=${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n').splitlines():
        package, depends, provides = line.split('\t')
        needs[package] = set(re.findall(r'(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)', depends))
        for name in re.findall(r'(?:^|,)\s*([a-z0-9][a-z0-9+.-]+)', provides):
            provided.setdefault(name, set()).add(package)
    return {package: {other for name in names for other in {name} | provided.get(name, set())}
            for package, names in needs.items()}


@lru_cache(None)
def with_dependencies(packages):
    found, new = set(), set(packages)
    while new:
        found |= new
        new = {need for package in new for need in all_dependencies().get(package, ())} - found
    return found


@lru_cache(None)
def minimal_packages():
    lines = dpkg('dpkg-query', '-W', '-f=${Package} ${Essential} ${Priority}\n').splitlines()
    return {line.split()[0] for line in lines if ' yes ' in line or line.endswith(' required')} | {'apt'}


@lru_cache(None)
def package_of_files():
    packages = {}
    for file in Path('/var/lib/dpkg/info').glob('*.list'):
        packages.update(dict.fromkeys(file.read_text().split('\n'), file.stem.split(':')[0]))
    return packages


def package_of(program):
    """None if this machine has no such program, or none from a package."""
    path = shutil.which(program, path='/usr/sbin:/usr/bin:/sbin:/bin')
    files = [path, str(Path(path).resolve())] if path else []
    found = [package_of_files().get(spelling) for file in files for spelling in (file, file.removeprefix('/usr'))]
    return next(filter(None, found), None)


@unittest.skipUnless(shutil.which('dpkg-query'), 'this system has no dpkg')
class CalledProgramsTest(unittest.TestCase):
    def check(self, paths):
        num_calls = 0
        for path in paths:
            caller = path.with_name(CALLERS.get(path.name, path.name))
            options = re.findall(r"tools/setup[ ,'\"]*(--\w+)", caller.read_text())
            there = minimal_packages() | with_dependencies(frozenset(packages_of_setup(options)))
            for word in sorted(words_of(path) - OWN_WORDS):
                package = package_of(word)
                num_calls += package is not None
                with self.subTest(script=str(path.relative_to(ROOT)), program=word):
                    self.assertTrue(package is None or package in there,
                                    f'{word} is in package {package}, which tools/setup does not install')
        return num_calls

    def test_of_scripts_are_installed(self):
        self.assertGreater(self.check(SCRIPTS), 30)

    def test_of_tests_are_installed(self):
        self.assertGreater(self.check(TESTS), 10)

    def test_calls_are_found(self):
        self.assertLessEqual({'grep', 'sed', 'dpkg-query'}, words_of(ROOT / 'tools/setup'))
        self.assertIn('ip', words_of(ROOT / 'tools/test_two_hosts'))
        self.assertIn('pgrep', words_of(ROOT / 'tests/parallel/comm/job/ringrun_test.py'))
        self.assertIn('kill', words_of(ROOT / 'tests/parallel/comm/job/hosts_ringrun_test.py'))
        self.assertEqual(package_of('pgrep'), 'procps')
        self.assertNotIn('procps', minimal_packages())


if __name__ == '__main__':
    unittest.main()
