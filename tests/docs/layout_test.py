#!/usr/bin/env python3
"""Rules of the house that no compiler checks: width of lines, names of includes, size of files and folders."""
import graphlib
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = 'autograd core data kernels nn parallel sim'.split()
FOLDERS = LIBRARY + ['benchmarks', 'examples', 'tests']
SOURCES = [path for path in [*sorted(ROOT.glob('*.h')), *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob('*')))]
           if path.suffix in ('.h', '.cc', '.cu', '.cuh')]
BINDINGS = sorted((ROOT / 'python/src').iterdir())
WIDTH = 100
MOST_WITHOUT_README = 4
MOST_COMMENT_LINES = 25
MOST_CONCEPTS = 30
MOST_LINES = {'.h': 250, '.cuh': 250, '.cc': 400, '.cu': 400}


class LayoutTest(unittest.TestCase):
    def test_lines_have_at_most_100_columns(self):
        wide = [f'{path.relative_to(ROOT)}:{number}: {len(line)}' for path in SOURCES + BINDINGS
                for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDTH]
        self.assertEqual(wide, [])

    def test_files_are_short(self):
        """A longer file has several ideas, and becomes several files."""
        long = {str(path.relative_to(ROOT)): lines for path in SOURCES + BINDINGS
                if (lines := path.read_text().count('\n')) > MOST_LINES.get(path.suffix, lines)}
        self.assertEqual(long, {})

    def test_includes_of_ours_begin_with_ringrad(self):
        """So that a user's own core/ or data/ never takes the place of ours."""
        wrong = [f'{path.relative_to(ROOT)}: {name}' for path in SOURCES
                 for name in re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)
                 if not (name.startswith('ringrad/') and (ROOT / name.removeprefix('ringrad/')).is_file())]
        self.assertEqual(wrong, [])

    def test_the_module_for_newer_bazels_names_every_library_of_the_workspace(self):
        def names(file, begin, pattern):
            return sorted(re.findall(pattern, (ROOT / file).read_text().split(begin)[1].split('def ')[0], re.MULTILINE))
        self.assertEqual(names('MODULE.bazel', 'use_repo(', r'^    "(\w+)",$'),
                         names('deps.bzl', '_LIBRARIES = [', r'^    "(\w+)"(?:,|: ")'))

    def test_examples_include_public_headers_alone(self):
        """Public: the installed faces, headers that they include directly, and headers that docs/own_kernel.md includes."""
        def included(name):
            return re.findall(r'^#include "ringrad/(.*)"', (ROOT / name).read_text(), re.MULTILINE)
        faces = (ROOT / 'tools/package/faces.txt').read_text().split()
        umbrellas = [path.name for path in ROOT.glob('*.h')]
        public = {*faces, *umbrellas, *(name for page in (*umbrellas, 'docs/own_kernel.md') for name in included(page))}
        internal = [f'{path.relative_to(ROOT)}: {name}' for path in SOURCES if path.relative_to(ROOT).parts[0] == 'examples'
                    for name in included(path) if name not in public and not name.startswith('examples/')]
        self.assertEqual(internal, [])

    def test_a_header_explains_itself_in_at_most_25_lines(self):
        """Longer explanations are in the room's README or in docs/."""
        long = []
        for path in SOURCES:
            if path.suffix in ('.h', '.cuh') and path.relative_to(ROOT).parts[0] in LIBRARY:
                text = re.sub('^[ \t]*//.*', '//', path.read_text(), flags=re.MULTILINE)
                longest = max((run.count('\n') for run in re.findall('(?:^//\n)+', text, re.MULTILINE)), default=0)
                if longest > MOST_COMMENT_LINES:
                    long.append(f'{path.relative_to(ROOT)}: {longest}')
        self.assertEqual(long, [])

    def test_a_folder_holds_at_most_30_concepts(self):
        """A concept is a header, with or without a source."""
        large = {}
        for folder in LIBRARY:
            for path in [ROOT / folder, *(ROOT / folder).rglob('*/')]:
                headers = [*path.glob('*.h'), *path.glob('*.cuh')]
                if len(headers) > MOST_CONCEPTS:
                    large[str(path.relative_to(ROOT))] = len(headers)
        self.assertEqual(large, {})

    def test_rooms_form_no_circle(self):
        """Includes lead from each room only to rooms that do not lead back to it."""
        rooms = {}
        for path in SOURCES:
            room = path.relative_to(ROOT).parent
            if room.parts and room.parts[0] in LIBRARY:
                rooms.setdefault(str(room), set()).update(
                    str(Path(name).parent) for name in re.findall(r'^#include "ringrad/(.*)"', path.read_text(), re.MULTILINE))
        try:
            graphlib.TopologicalSorter({room: used - {room} for room, used in rooms.items()}).prepare()
        except graphlib.CycleError as error:
            self.fail(f'each of these rooms includes a header of the one before it: {" ".join(error.args[1])}')

    def test_every_room_has_a_readme_with_a_reading_order_of_at_most_7(self):
        """A folder of few headers is part of the room above it."""
        rooms = {path.parent for path in SOURCES if path.relative_to(ROOT).parts[0] in LIBRARY}
        for room in sorted(rooms):
            if len([*room.glob('*.h'), *room.glob('*.cuh')]) <= MOST_WITHOUT_README:
                continue
            with self.subTest(room=str(room.relative_to(ROOT))):
                text = (room / 'README.md').read_text()
                self.assertRegex(text, '(?i)reading order')
                self.assertLessEqual(len(re.findall(r'^\d+[.] ', text, re.MULTILINE)), 7)


if __name__ == '__main__':
    unittest.main()
