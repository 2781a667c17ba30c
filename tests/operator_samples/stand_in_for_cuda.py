#!/usr/bin/env python3
"""Lets PyTorch's wheel load without NVIDIA's libraries, which are 3 GB and which no CPU needs.

    stand_in_for_cuda.py FOLDER      FOLDER is torch/lib of an installed wheel

The wheel links to cuBLAS, cuDNN, NCCL and others. For each one that FOLDER lacks, this makes a library of that name there
whose functions return CUDA's code for "no device". So torch.cuda.is_available() is false, and all else works.
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

NVIDIAS = re.compile(r'lib(cu|nccl|nv|nvrtc)')
FUNCTIONS = re.compile(r'(cu|cuda|cublas|cudnn|cufft|cuFile|cupti|curand|cusolver|cusparse|nccl|nvml|nvrtc|nvshmem|nvtx)\w*')
NO_DEVICE, TEXT = 100, '(long)"no device"'


def printed(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def wanted(folder):
    """(library: version or '': functions) of what the wheel's libraries link to and FOLDER lacks."""
    functions = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in folder.glob('*.so*'):
        headers = printed('objdump', '-p', path)
        needed = [name for name in re.findall(r'NEEDED +(\S+)', headers) if NVIDIAS.match(name) and
                  not (folder / name).exists()]
        for name in needed:
            functions[name]['']  # even if no function of it is called
        owner = {}
        for name, versions in re.findall(r'required from (\S+):\n((?: +0x.*\n)*)', headers):
            owner |= {version: name for version in re.findall(r'(\S+)$', versions, re.MULTILINE)}
        for version, function in re.findall(r'\*UND\*\s+\S+ +(?:\((\S+)\)|Base)? +(\w+)$', printed('objdump', '-T', path),
                                            re.MULTILINE):
            if version and owner.get(version) in needed:
                functions[owner[version]][version].add(function)
            elif not version and needed and FUNCTIONS.fullmatch(function):
                functions[needed[0]][''].add(function)
    return functions


def make(path, versions):
    every = set().union(*versions.values())
    source = ''.join(f'long {function}(void) {{ return {TEXT if "String" in function else NO_DEVICE}; }}\n'
                     for function in sorted(every)) or 'int empty;\n'
    script = ''.join(f'{version} {{ {"".join(f"{f}; " for f in sorted(functions))} }};\n'
                     for version, functions in versions.items() if version)
    (path.parent / 'stand_in.map').write_text(script)
    options = [f'-Wl,--version-script={path.parent / "stand_in.map"}'] if script else []
    subprocess.run(['gcc', '-shared', '-fPIC', '-fno-builtin', '-w', '-x', 'c', '-', '-o', path, f'-Wl,-soname={path.name}',
                    *options], input=source, text=True, check=True)
    (path.parent / 'stand_in.map').unlink()


def main():
    folder = Path(sys.argv[1])
    for name, versions in wanted(folder).items():
        make(folder / name, versions)


if __name__ == '__main__':
    main()
