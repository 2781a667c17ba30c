#!/usr/bin/env python3
"""Checkpoint files as other programs see them: by the published safetensors layout, after kill -9, on a full disk."""
import json
import random
import struct
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

WRITER = str(Path('tests/nn/checkpoint/checkpoint_writer').absolute())
FORMATS = {'F64': ('d', 8), 'F32': ('f', 4), 'F16': ('e', 2), 'I64': ('q', 8), 'I32': ('i', 4), 'U8': ('B', 1),
           'BOOL': ('?', 1)}


def parse(path):
    """{name: (dtype, shape, values)}, parsed by the format's description alone."""
    data = Path(path).read_bytes()
    length, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length].decode('utf-8'))
    body = data[8 + length:]
    metadata = header.pop('__metadata__')
    assert all(isinstance(value, str) for value in metadata.values())
    tensors, covered = {}, 0
    for name, info in sorted(header.items(), key=lambda item: item[1]['data_offsets']):
        assert set(info) == {'dtype', 'shape', 'data_offsets'}
        begin, end = info['data_offsets']
        assert begin == covered, 'no gaps, no overlaps'
        covered, numel = end, 1
        for extent in info['shape']:
            numel *= extent
        if info['dtype'] == 'BF16':  # the upper half of a float32
            raw = body[begin:end]
            wide = b''.join(b'\0\0' + raw[i:i + 2] for i in range(0, len(raw), 2))
            values = struct.unpack(f'<{numel}f', wide)
        else:
            letter, size = FORMATS[info['dtype']]
            assert end - begin == numel * size
            assert begin % size == 0, 'aligned'
            values = struct.unpack(f'<{numel}{letter}', body[begin:end])
        tensors[name] = (info['dtype'], info['shape'], list(values))
    assert covered == len(body), 'the tensors are all there is'
    return tensors, metadata, length


def run(*arguments, **options):
    return subprocess.run([WRITER, *map(str, arguments)], text=True, capture_output=True, **options)


class CheckpointFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / 'file'

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_files_are_as_safetensors_describes(self):
        self.assertEqual(run('write', self.file).returncode, 0)
        tensors, metadata, length = parse(self.file)
        self.assertEqual(length % 8, 0)
        names = {'F32': 'float32', 'F64': 'float64', 'F16': 'float16', 'BF16': 'bfloat16', 'I32': 'int32',
                 'I64': 'int64', 'U8': 'uint8'}
        expected = {f'some.{name}': (dtype, [2, 3], [0, 1, 2, 3, 4, 5]) for dtype, name in names.items()}
        expected['some.bool'] = ('BOOL', [2, 3], [True, False] * 3)
        expected['none'] = ('F32', [0, 7], [])
        expected['number'] = ('F64', [], [2.5])
        self.assertEqual(tensors, expected)
        # An addition of Ringrad: the checksum of the file, computed with zeros in its own place.
        data = self.file.read_bytes()
        at = data.index(metadata['crc32'].encode())
        self.assertEqual(f'{zlib.crc32(data[:at] + b"0" * 8 + data[at + 8:]):08x}', metadata['crc32'])

    def test_a_process_killed_at_any_moment_leaves_the_last_save_or_the_one_before(self):
        number, most_left = 1, 0
        self.assertEqual(run('loop', self.file, number, 1, 50_000).stdout, '1\n')
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        for _ in range(25):
            with subprocess.Popen([WRITER, 'loop', self.file, str(number + 1), '1000000', '50000'],
                                  stdout=subprocess.PIPE, text=True) as process:
                saved = number
                for _ in range(chance.randrange(3)):
                    saved = int(process.stdout.readline())
                try:  # any moment will do
                    process.wait(chance.random() * 0.02)
                except subprocess.TimeoutExpired:
                    pass
                process.kill()
                for line in process.stdout:
                    if line.endswith('\n'):
                        saved = int(line)
            before, number = number, int(run('read', self.file).stdout)
            self.assertIn(number, (saved, saved + 1), f'seed {seed}')
            self.assertEqual(set(parse(self.file)[0]['x'][2]), {number})
            left = [name for name in self.files() if name != 'file']
            # A save removes what earlier writers have left.
            most_left = 1 if number > before else most_left + 1
            self.assertLessEqual(len(left), most_left, f'seed {seed}: {left}')
            for name in left:
                self.assertRegex(name, r'^file\.\d{20}\.ringrad-tmp$')
        self.assertEqual(run('loop', self.file, number + 1, 1, 10).returncode, 0)
        self.assertEqual(self.files(), ['file'])

    def test_a_full_disk_leaves_the_last_save(self):
        script = ('mount -t tmpfs -o size=256k none "$2" || exit 99\n'
                  '"$1" loop "$2/file" 1 3 1000 || exit 1\n'
                  '"$1" loop "$2/file" 4 1 1000000 && exit 2\n'
                  '"$1" read "$2/file" && ls "$2"')
        disk = self.folder / 'disk'
        disk.mkdir()
        done = subprocess.run(['unshare', '-rm', 'bash', '-c', script, 'bash', WRITER, str(disk)], text=True,
                              capture_output=True)
        if done.returncode == 99 or 'unshare' in done.stderr:
            self.skipTest('no file system may be mounted here')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, '1\n2\n3\n3\nfile\n')
        self.assertIn('must be writable; got "No space left on device"', done.stderr)


if __name__ == '__main__':
    unittest.main()
