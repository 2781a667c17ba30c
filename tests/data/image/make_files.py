#!/usr/bin/env python3
"""Makes the images in files/, and beside each the pixels (C, H, W) that PIL reads from it, as .npy.

    make_files.py        needs NumPy and PIL; files/ was made with PIL 13.0.0 and libjpeg-turbo 3.2.0
"""
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

FILES = Path(__file__).parent / 'files'
HEIGHT, WIDTH = 9, 11
rng = np.random.default_rng(1)


def chunk(name, body):
    return struct.pack('>I', len(body)) + name + body + struct.pack('>I', zlib.crc32(name + body))


def png(name, samples, color, depth=8, interlaced=False, before=b''):
    """A PNG of samples (H, W, C), which PIL cannot write in every way: each row begins with filter 0."""
    def rows(part):
        packed = part.reshape(part.shape[0], -1)
        if depth < 8:
            bits = np.unpackbits(packed.astype(np.uint8)[..., None], axis=-1)[..., -depth:]
            packed = np.packbits(bits.reshape(len(packed), -1), axis=1)
        return b''.join(b'\0' + row.astype('>u2' if depth == 16 else np.uint8).tobytes() for row in packed)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    parts = [samples[y::dy, x::dx] for y, x, dy, dx in passes] if interlaced else [samples]
    header = struct.pack('>IIBBBBB', samples.shape[1], samples.shape[0], depth, color, 0, 0, interlaced)
    data = zlib.compress(b''.join(rows(part) for part in parts if part.size), 9)
    (FILES / name).write_bytes(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + before + chunk(b'IDAT', data) +
                               chunk(b'IEND', b''))


def pixels(path):
    image = Image.open(path)
    if image.mode == 'P':
        image = image.convert('RGBA' if 'transparency' in image.info else 'RGB')
    elif image.mode == '1':
        image = image.convert('L')
    elif image.mode == 'CMYK':
        image = image.convert('RGB')
    samples = np.asarray(image)
    if image.mode.startswith('I'):
        samples = (samples >> 8).astype(np.uint8)
    return np.atleast_3d(samples).transpose(2, 0, 1)


def save(path, samples):
    with open(path, 'wb') as file:
        np.save(file, np.ascontiguousarray(samples))


def main():
    FILES.mkdir(exist_ok=True)
    noise = rng.integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    smooth = np.stack([20 * x + y, 255 - 25 * y, 10 * x + 10 * y], -1).clip(0, 255).astype(np.uint8)
    palette = chunk(b'PLTE', rng.integers(0, 256, 3 * 16, np.uint8).tobytes())
    for depth in (1, 2, 4):
        png(f'gray{depth}.png', noise[..., :1] >> (8 - depth), 0, depth)
    png('gray16.png', noise[..., :1].astype(int) * 251 + 5, 0, 16)
    png('rgb16.png', noise[..., :3].astype(int) * 251 + 5, 2, 16)
    png('rgb_interlaced.png', noise[..., :3], 2, interlaced=True)
    png('gray1_interlaced.png', noise[..., :1] >> 7, 0, 1, interlaced=True)
    png('palette.png', noise[..., :1] >> 4, 3, 4, before=palette)
    png('palette_alpha.png', noise[..., :1] >> 4, 3, 8, before=palette + chunk(b'tRNS', bytes(range(0, 240, 30))))
    Image.fromarray(noise[..., 0]).save(FILES / 'gray.png')
    Image.fromarray(noise[..., :2], 'LA').save(FILES / 'gray_alpha.png')
    png('rgb.png', smooth, 2, before=chunk(b'gAMA', struct.pack('>I', 100000)))
    Image.fromarray(noise).save(FILES / 'rgba.png')
    photo = Image.fromarray(smooth)
    photo.save(FILES / 'rgb.jpg', quality=85)
    photo.save(FILES / 'rgb_444.jpeg', quality=95, subsampling=0)
    photo.save(FILES / 'rgb_progressive.jpg', quality=80, progressive=True)
    photo.convert('L').save(FILES / 'gray.jpg')
    photo.convert('CMYK').save(FILES / 'cmyk.jpg')
    for path in [*FILES.glob('*.png'), *FILES.glob('*.jp*g')]:
        save(path.with_suffix(path.suffix + '.npy'), pixels(path))
    wide = Image.fromarray(smooth)
    save(FILES / 'rgb.png.4x5.npy', np.asarray(wide.resize((5, 4), Image.Resampling.BILINEAR)).transpose(2, 0, 1))
    save(FILES / 'rgb.png.20x3.npy', np.asarray(wide.resize((3, 20), Image.Resampling.BILINEAR)).transpose(2, 0, 1))
    save(FILES / 'rgb.png.gray.npy', np.asarray(wide.convert('L'))[None])


if __name__ == '__main__':
    main()
