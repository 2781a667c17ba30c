#!/usr/bin/env python3
"""tools/draw: boxes are where the times say, nothing overlaps or leaves the picture, and the pages show, in a real
browser, what a plan does.

This test replays plans from their JSON, without the library's code.
"""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from collections import defaultdict, deque
from pathlib import Path

DRAW = str(Path('tools/src/draw').absolute())
CHROMIUM = shutil.which('chromium', path='/usr/bin:/usr/local/bin')
SVG = '{http://www.w3.org/2000/svg}'
SCHEDULES = {'gpipe': (1, 2), '1f1b': (1, 2), 'interleaved': (2, 2), 'zero_bubble': (1, 3)}  # stages per device; passes


def setUpModule():
    global folder
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)


def tearDownModule():
    folder.cleanup()


def draw(*arguments):
    return subprocess.run([DRAW, *map(str, arguments)], text=True, capture_output=True)


def drawn(*arguments):
    result = draw(*arguments, '-o', 'drawn')
    assert result.returncode == 0, result.stderr
    assert result.stderr == 'draw: wrote drawn\n', result.stderr
    return Path('drawn').read_text()


def algorithms():
    """[(collective, algorithm)], as the help lists them."""
    said = draw('--help').stdout.split('Algorithms:')[1]
    return [(line.split(':')[0].strip(), name) for line in said.strip().splitlines()
            for name in line.split(':')[1].split()]


# --- Pictures -------------------------------------------------------------------------------------------------


def number(element, name):
    return float(element.get(name))


def box(element):
    x, y = number(element, 'x'), number(element, 'y')
    return x, y, x + number(element, 'width'), y + number(element, 'height')


def text_box(element):
    """About where a text is: letters of a common font are 0.6 of its size wide on average."""
    classes = element.get('class').split()
    size = 16 if 'title' in classes else 12
    width = 0.6 * size * len(element.text or '')
    x = number(element, 'x') - {'start': 0, 'middle': 0.5, 'end': 1}[element.get('text-anchor')] * width
    return x, number(element, 'y') - 0.75 * size, x + width, number(element, 'y') + 0.2 * size


def overlap(a, b):
    return min(a[2], b[2]) - max(a[0], b[0]) > 0.1 and min(a[3], b[3]) - max(a[1], b[1]) > 0.1


class Picture:
    def __init__(self, text):
        self.root = ElementTree.fromstring(text)
        self.width, self.height = map(float, self.root.get('viewBox').split()[2:])
        self.rects = [rect for rect in self.root.iter(SVG + 'rect') if 'x' in rect.keys()]
        self.texts = list(self.root.iter(SVG + 'text'))

    def of_class(self, name):
        return [rect for rect in self.rects if name in rect.get('class').split()]

    def check_layout(self, test):
        ends = [tuple(map(float, point)) for path in self.root.iter(SVG + 'path') if path.get('class') != 'hatch'
                for point in re.findall(r'[MLC ](-?[\d.]+) (-?[\d.]+)(?=[MLC ]|$)', path.get('d').split('l')[0])]
        for x1, y1, x2, y2 in [*map(box, self.rects), *map(text_box, self.texts), *(end + end for end in ends)]:
            test.assertTrue(0 <= x1 <= x2 <= self.width and 0 <= y1 <= y2 <= self.height, (x1, y1, x2, y2))
        rows = defaultdict(list)  # texts that could meet
        for text in self.texts:
            for row in range(int(number(text, 'y')) // 20 - 1, int(number(text, 'y')) // 20 + 2):
                rows[row].append(text)
        for texts in rows.values():
            for i, one in enumerate(texts):
                for other in texts[:i]:
                    test.assertFalse(overlap(text_box(one), text_box(other)), (one.text, other.text))


class PipelinePictures(unittest.TestCase):
    def spans(self, rect):
        found = re.fullmatch(r'(\w+) stage (\d+) micro-batch (\d+): (\S+) \w+ to (\S+) \w+',
                             rect.find(SVG + 'title').text)
        return found[1], int(found[2]), int(found[3]), float(found[4]), float(found[5])

    def check_panel(self, picture, boxes, bubbles, panel):
        total, bubble = re.search(r': (\S+) \w+, bubble (\S+) %', panel.text).groups()
        per_unit = number(bubbles[0], 'width') / float(total)
        left = number(bubbles[0], 'x')
        rows = defaultdict(list)
        for rect in boxes:
            *_, start, end = self.spans(rect)
            x1, y, x2, _ = box(rect)
            self.assertAlmostEqual(x1, left + start * per_unit, delta=0.6)
            self.assertAlmostEqual(x2, left + end * per_unit, delta=0.6)
            rows[y].append((x1, x2))
        self.assertEqual(sorted(rows), [number(row, 'y') for row in bubbles])
        for row in rows.values():
            row.sort()
            for (_, end), (start, _) in zip(row, row[1:]):
                self.assertLessEqual(end, start + 0.01)
        busy = sum(end - start for row in rows.values() for start, end in row)
        share = 1 - busy / (len(bubbles) * number(bubbles[0], 'width'))
        self.assertAlmostEqual(100 * share, float(bubble), delta=0.1)

    def test_boxes_are_as_many_as_the_plan_has_and_to_scale(self):
        for schedule, (per_device, passes) in SCHEDULES.items():
            for devices in 2, 4, 8:
                for micro_batches in 8, 16:
                    with self.subTest(schedule=schedule, devices=devices, micro_batches=micro_batches):
                        picture = Picture(drawn('pipeline', '--plan', schedule, '--stages', devices * per_device,
                                                '--stages-per-device', per_device, '--micro-batches', micro_batches))
                        picture.check_layout(self)
                        boxes = picture.of_class('box')
                        self.assertEqual(len({self.spans(rect)[:3] for rect in boxes}), len(boxes))
                        self.assertEqual(len(boxes), passes * devices * per_device * micro_batches)
                        bubbles = picture.of_class('bubble')[1:]  # the first is the legend's
                        self.assertEqual(len(bubbles), devices)
                        panel, = (text for text in picture.texts if 'panel' in text.get('class'))
                        self.check_panel(picture, boxes, bubbles, panel)

    def test_the_bubble_of_1f1b_is_that_of_its_formula(self):
        text = drawn('pipeline', '--plan', '1f1b', '--stages', 4, '--micro-batches', 8)
        self.assertIn('planned: 33 units, bubble 27.3 %', text)  # 3 (p - 1) of 3 m + 3 (p - 1)

    def test_a_run_is_drawn_below_its_plan_on_one_axis(self):
        # Device 1 takes twice as long for the first micro-batch.
        def action(op, stage, micro_batch, start, end):
            return {'op': op, 'stage': stage, 'micro_batch': micro_batch, 'start_s': start, 'end_s': end}
        devices = [
            [action('forward', 0, 0, 0, .001), action('send_activation', 0, 0, .001, .001),
             action('forward', 0, 1, .001, .002), action('send_activation', 0, 1, .002, .002),
             action('recv_gradient', 0, 0, .002, .006), action('backward', 0, 0, .006, .007),
             action('recv_gradient', 0, 1, .007, .008), action('backward', 0, 1, .008, .009)],
            [action('recv_activation', 1, 0, 0, .001), action('forward', 1, 0, .001, .003),
             action('backward', 1, 0, .003, .006), action('send_gradient', 1, 0, .006, .006),
             action('recv_activation', 1, 1, .006, .006), action('forward', 1, 1, .006, .007),
             action('backward', 1, 1, .007, .008), action('send_gradient', 1, 1, .008, .008)]]

        def write(path, devices):
            Path(path).write_text(json.dumps({'schedule': 'mine', 'num_devices': 2, 'num_stages': 2,
                                              'num_micro_batches': 2, 'devices': devices}))
        write('run.json', devices)
        text = drawn('pipeline', '--measured', 'run.json')
        self.assertEqual(text, drawn('run.json'))
        write('no_messages.json', [[one for one in all if one['op'] in ('forward', 'backward')] for all in devices])
        self.assertEqual(text, drawn('no_messages.json'))
        write('unfinished.json', [devices[0][:-1], devices[1]])
        self.assertIn('the plan of a run must be proved; got ', draw('unfinished.json').stderr)
        picture = Picture(text)
        picture.check_layout(self)
        panels = [text for text in picture.texts if 'panel' in text.get('class')]
        self.assertEqual([panel.text.split(':')[0] for panel in panels], ['planned', 'measured'])
        self.assertIn('measured: 9 ms, bubble 38.9 %', text)  # 1 - 11 / 18
        boxes, bubbles = picture.of_class('box'), picture.of_class('bubble')[1:]
        self.assertEqual((len(boxes), len(bubbles)), (16, 4))
        self.check_panel(picture, boxes[:8], bubbles[:2], panels[0])
        self.check_panel(picture, boxes[8:], bubbles[2:], panels[1])
        scale = [number(rows[0], 'width') / float(panel.text.split()[1]) for rows, panel in
                 zip((bubbles[:2], bubbles[2:]), panels)]
        self.assertAlmostEqual(scale[0], scale[1], delta=0.01)


# --- Collectives ----------------------------------------------------------------------------------------------


def label(ranks):
    """The ranks as the pages print them: three or more consecutive ranks are a range."""
    text = ','.join(map(str, sorted(ranks)))
    parts = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    text = ','.join(f'{part[0]}-{part[-1]}' if len(part) > 2 else ','.join(map(str, part)) for part in parts)
    return '{' + text + '}' if text else ''


def replay(plan):
    """[{(rank, chunk): ranks}] in the beginning and after each time slot."""
    n, chunks, collective = plan['world_size'], plan['num_chunks'], plan['collective']
    begins = {'all_gather': lambda c: {c * n // chunks}, 'all_to_all': lambda c: {c // n},
              'broadcast': lambda c: {plan['root']}}.get(collective)
    held = {(r, c): {r} if begins is None or begins(c) == {r} else set() for r in range(n) for c in range(chunks)}
    staged, made, channels = {}, {}, defaultdict(deque)
    frames = [dict(held)]
    left = [deque(i for i, step in enumerate(plan['steps']) if step['rank'] == r) for r in range(n)]
    while any(left):
        before = sum(map(len, left))
        for rank, mine in enumerate(left):
            while mine:
                step = plan['steps'][mine[0]]
                op, chunk, peers = step['op'], step['chunk'], step['peers']
                if op == 'stage':
                    staged[rank, chunk] = held[rank, chunk]
                elif op in ('send', 'send_staged'):
                    channels[rank, peers[0]].append((staged if op == 'send_staged' else held)[rank, chunk])
                else:
                    if any(peer != rank and not channels[peer, rank] for peer in peers):
                        break
                    terms = [held[rank, chunk] if peer == rank else channels[peer, rank].popleft() for peer in peers]
                    assert sum(map(len, terms)) == len(set().union(*terms)), 'a rank contributes twice'
                    held[rank, chunk] = made[mine[0]] = set().union(*terms)
                mine.popleft()
        assert sum(map(len, left)) < before, 'deadlock'
    for slot in sorted({step['step'] for step in plan['steps']}):
        frame = dict(frames[-1])
        for i, step in enumerate(plan['steps']):
            if step['step'] == slot and i in made:
                frame[step['rank'], step['chunk']] = made[i]
        frames.append(frame)
    return frames


# Steps through a page as a reader would, and writes the content of each frame into the page.
WALK = '''<pre id="log"></pre><script>
const shown = () => ({ step: el("step").textContent, hash: location.hash, fault: el("fault").hidden ? "" :
  el("fault").textContent, wrong: document.querySelectorAll("svg .wrong").length,
  tips: document.querySelectorAll("#table .tip").length,
  cells: [...document.querySelectorAll(".held")].map(t => [+t.dataset.rank, +t.dataset.chunk, t.textContent]) });
const log = { forth: [shown()], back: [] };
const press = key => dispatchEvent(new KeyboardEvent("keydown", { key }));
while (!el("next").disabled) {
  log.forth.length % 2 ? press("ArrowRight") : el("next").click();
  log.forth.push(shown());
}
log.back.push(shown());
while (!el("back").disabled) {
  log.back.length % 2 ? press("ArrowLeft") : el("back").click();
  log.back.push(shown());
}
press("End"); log.end = shown();
el("slider").value = 1; el("slider").oninput(); log.slid = shown();
el("log").textContent = JSON.stringify(log);
</script>'''


class Collectives(unittest.TestCase):
    def test_all_steps_are_in_one_picture(self):
        for collective, algorithm in algorithms():
            for ranks in 1, 2, 3, 4, 8, 16:
                with self.subTest(collective=collective, algorithm=algorithm, ranks=ranks):
                    arguments = algorithm, '--collective', collective, '--ranks', ranks
                    frames = replay(json.loads(drawn(*arguments, '--format', 'json')))
                    picture = Picture(drawn(*arguments, '--format', 'svg'))
                    if ranks <= 8:
                        picture.check_layout(self)
                    labels = [text.text for text in picture.texts if (text.text or '').startswith('{')]
                    self.assertEqual(sorted(labels), sorted(label(held) for frame in frames for held in frame.values()
                                                            if held))

    def log_of(self, page, walk=WALK, at=''):
        if CHROMIUM is None:
            self.skipTest('no chromium; tools/setup --draw installs it')
        Path('page.html').write_text(page + walk)
        out = subprocess.run([CHROMIUM, '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                              f'--user-data-dir={folder.name}/browser', '--dump-dom',
                              Path('page.html').absolute().as_uri() + at],
                             text=True, capture_output=True)
        found = re.search(r'<pre id="log">(.+?)</pre>', out.stdout, re.S)
        self.assertTrue(found, out.stdout[-2000:] + out.stderr[-2000:])
        return json.loads(html.unescape(found[1]))

    def check_pages(self, collective, algorithm, *arguments):
        arguments = algorithm, '--collective', collective, *arguments
        plan = json.loads(drawn(*arguments, '--format', 'json'))
        log = self.log_of(drawn(*arguments))
        self.assertEqual(log['forth'], log['back'][::-1])
        self.assertEqual(log['end'], log['forth'][-1])
        self.assertEqual(log['slid'], log['forth'][min(1, len(log['forth']) - 1)])
        frames = replay(plan)
        self.assertEqual(len(frames), len(log['forth']))
        for number, (frame, shown) in enumerate(zip(frames, log['forth'])):
            self.assertEqual(shown['hash'], f'#step={number}')
            self.assertEqual({(r, c): text for r, c, text in shown['cells']},
                             {place: label(ranks) for place, ranks in frame.items()})
            self.assertEqual((shown['fault'], shown['wrong']), ('', 0))
        receives = sum(len([p for p in step['peers'] if p != step['rank']]) for step in plan['steps']
                       if step['op'].startswith('recv'))
        self.assertEqual(sum(shown['tips'] for shown in log['forth']), receives)
        if collective == 'all_reduce':
            everything = label(range(plan['world_size']))
            self.assertEqual({text for _, _, text in log['end']['cells']}, {everything})

    def test_a_page_goes_through_every_algorithm(self):
        for collective, algorithm in algorithms():
            with self.subTest(collective=collective, algorithm=algorithm):
                self.check_pages(collective, algorithm, '--ranks', 4)

    def test_a_page_has_up_to_16_ranks(self):
        for algorithm in 'ring', 'halving_doubling', 'tree', 'two_shot':
            for ranks in 2, 8:
                with self.subTest(algorithm=algorithm, ranks=ranks):
                    self.check_pages('all_reduce', algorithm, '--ranks', ranks)
        for ranks in 1, 16:
            self.check_pages('all_reduce', 'ring', '--ranks', ranks)

    def test_a_page_opens_at_a_step(self):
        log = self.log_of(drawn('ring'), '<pre id="log"></pre><script>el("log").textContent = '
                                         'JSON.stringify(el("step").textContent)</script>', '#step=2')
        self.assertEqual(log, 'step 1 (2 of 6)')

    def test_a_plan_that_fails_says_where(self):
        plan = json.loads(drawn('ring', '--ranks', 3, '--format', 'json'))
        plan['algorithm'] = 'my </script><b> & "ring"'
        spoilt = next(step for step in plan['steps'] if step['op'] == 'recv_reduce' and step['step'] == 1)
        spoilt['op'], spoilt['peers'] = 'recv', [peer for peer in spoilt['peers'] if peer != spoilt['rank']]
        Path('mine.json').write_text(json.dumps(plan))
        for form in 'svg', 'html':
            result = draw('mine.json', '--format', form, '-o', 'mine.' + form)
            self.assertEqual(result.returncode, 0)
            self.assertRegex(result.stderr, f"draw: wrote mine.{form}\ndraw: the plan fails: .* contribution once; got ")
        Picture(Path('mine.svg').read_text()).check_layout(self)
        page = Path('mine.html').read_text()
        self.assertEqual(self.log_of(page, WALK.replace('<script>', '<script>const opened = el("fault").hidden;')
                                     .replace('JSON.stringify(log)', 'JSON.stringify(opened)')), False)
        log = self.log_of(page, at='#step=0')
        self.assertIn("every rank's contribution once; got", log['end']['fault'])
        self.assertEqual(log['end']['wrong'], 1)
        self.assertEqual([shown['fault'] for shown in log['forth'][:-1]], [''] * (len(log['forth']) - 1))


# --- The command ----------------------------------------------------------------------------------------------


class Command(unittest.TestCase):
    def test_names_its_file(self):
        self.assertEqual(draw('ring').stderr, 'draw: wrote ring_all_reduce_4.html\n')
        self.assertEqual(draw('pipeline').stderr, 'draw: wrote pipeline_1f1b_4.svg\n')
        self.assertTrue(Path('ring_all_reduce_4.html').exists() and Path('pipeline_1f1b_4.svg').exists())

    def test_refuses_what_makes_no_sense(self):
        Path('bad.json').write_text('{"collective": 1}')
        Path('malformed.json').write_text('{"collective": "all_reduce", "algorithm": "a", "world_size": 0, '
                                          '"num_chunks": 1, "root": 0, "steps": []}')
        self.assertEqual(draw('ring', '--format', 'json', '-o', 'ring.json').returncode, 0)
        Path('deep.json').write_text('[' * 100_000 + ']' * 100_000)
        Path('long.json').write_bytes(b' ' * (65 << 20))
        for arguments, why in (
                ([], 'what is required'),
                (['deep.json'], 'must be nested at most 32 deep; got more'),
                (['long.json'], 'must have at most 67108864 bytes; got 67108865'),
                (['pipeline', '--measured', '/dev/zero'], 'must have at most 67108864 bytes; got 67108865'),
                (['ringg'], "the algorithm must be one of two_shot, one_shot, ring, "),
                (['ring', '--ranks', 17], '--ranks'),
                (['ring', '--collective', 'gather'], '--collective'),
                (['binomial', '--collective', 'broadcast', '--root', 4], 'root'),
                (['ring', '-o', '/nowhere/ring.html'], 'must be writable; got /nowhere/ring.html'),
                (['nothing.json'], 'must be readable; got nothing.json'),
                (['bad.json'], 'algorithm must be there; got none'),
                (['pipeline', '--measured', 'ring.json'], 'must name the run of a pipeline; got ring.json'),
                (['malformed.json'], 'must be positive; got 0 and 1'),
                (['ring', '--ranks', 16, '--segments', 64], 'at most 16 ranks and 256 chunks'),
                (['pipeline', '--format', 'html'], "a pipeline's format must be svg; got html"),
                (['pipeline', '--plan', '1f1b', '--measured', 'run.json'], 'excludes'),
                (['pipeline', '--plan', 'interleaved', '--stages', 6, '--stages-per-device', 4], 'must be a multiple'),
                (['pipeline', '--forward', -1], '--forward: must be a number in [0, 1e+09]; got "-1"'),
                (['pipeline', '--forward', 'nan'], '--forward: must be a number in [0, 1e+09]; got "nan"')):
            with self.subTest(arguments=arguments):
                result = draw(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertIn(why, result.stderr)


if __name__ == '__main__':
    unittest.main()
