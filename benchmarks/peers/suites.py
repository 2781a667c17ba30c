"""What `benchmarks/compare` runs, as data: programs, how they are built, their environments.

A Suite is a column of the tables: programs that follow the contract of benchmarks/cases.h, and the
environment they run in. A Group lists the suites that answer one question, and a Goal sets the
ratio to reach.
"""
import os
import re
import subprocess
from dataclasses import dataclass, field

SHARED = ['benchmarks/timing.cc', 'benchmarks/cases.cc']
ONEDNN = ['benchmarks/peers/onednn_net.cc', 'benchmarks/peers/onednn_layers.cc']
DEBIAN_TORCH = ['-isystem', '/usr/include/torch/csrc/api/include']
TORCH_LIBRARIES = ['-ltorch', '-ltorch_cpu', '-lc10']

# The gains that environment variables can give libtorch over its defaults:
# a heap that keeps its memory, in huge pages, instead of returning it after every large tensor;
KEEPS_MEMORY = {
    'GLIBC_TUNABLES': 'glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:'
                      'glibc.malloc.top_pad=268435456:glibc.malloc.hugetlb=1'}
# OpenBLAS with OpenMP (the one with threads of its own fights libgomp's spinning threads);
OPENMP_BLAS = {'LD_LIBRARY_PATH': '/usr/lib/x86_64-linux-gnu/openblas-openmp'}
# and AVX-512 kernels, which ATen uses only on request and OpenBLAS 0.3.21 only on CPUs it knows.
AVX512 = {'OPENBLAS_CORETYPE': 'SkylakeX', 'ATEN_CPU_CAPABILITY': 'avx512'}


@dataclass
class Program:
    """A C++ source with a main of its own, compiled here; or a script, or a Bazel target."""
    source: str
    sources: list = field(default_factory=list)
    flags: list = field(default_factory=list)
    libraries: list = field(default_factory=list)
    launcher: list = field(default_factory=list)
    arguments: list = field(default_factory=list)
    bazel: str = ''


@dataclass
class Suite:
    name: str
    programs: list
    environment: dict = field(default_factory=dict)


@dataclass
class Group:
    """Suites of which the fastest counts, and their name in a table."""
    title: str
    suites: list


@dataclass
class Goal:
    """Ours must be at least `ratio` times faster than the best of each group that matches."""
    group: str
    name: str
    ratio: float


OURS = 'ringrad'

GOALS = [
    Goal('^libtorch|^PyTorch', r'^eager/add_without_tape$', 4),
    Goal('^libtorch|^PyTorch', r'^eager/add_with_tape$', 4),
    Goal('^libtorch|^PyTorch', r'^eager/chain_backward/N:1000$', 5),
    Goal('^libtorch|^PyTorch', r'^step/tiny_mlp/', 8),
    Goal('^libtorch|^PyTorch', r'^step/mlp/', 1.25),
    Goal('^libtorch|^PyTorch', r'^step/convnet/', 2),
    Goal('^libtorch|^PyTorch', r'^step/resnet20/', 1.1),
    Goal('^libtorch|^PyTorch', r'^memory_peak/', 1),
    Goal('^PyTorch', r'^step/gpt/', 1.3),
    Goal('^torch.compile', r'^step/gpt/', 1),
    Goal('^PyTorch', r'^op/attention_forward_backward/B:4/H:8/T:1024/', 1.5),
    Goal('^PyTorch', r'^sequence/(layer_norm|rms_norm|embedding|cumsum|sort|topk|gather|index_add)/', 1.2),
    Goal('^PyTorch', r'^sequence/(lstm|bmm|einsum)', 1),
    Goal('^PyTorch', r'^sequence/generate/', 3),
    Goal('oneDNN', r'^step/', 0.8),
]


def has_avx512():
    with open('/proc/cpuinfo') as cpuinfo:
        return 'avx512vl' in cpuinfo.read()


def torch_programs(flags, libraries):
    return [Program(f'benchmarks/peers/torch_{what}.cc', SHARED, flags=flags, libraries=libraries)
            for what in ('step', 'ops')]


def peers():
    """The suites of the peers that Debian packages supply, and their groups."""
    tuned = {**KEEPS_MEMORY, **OPENMP_BLAS, **(AVX512 if has_avx512() else {})}
    torch = torch_programs(DEBIAN_TORCH, TORCH_LIBRARIES)
    suites = [
        Suite('torch', torch),
        Suite('torch+', torch, tuned),
        Suite('onednn', [
            Program(f'benchmarks/peers/onednn_{what}.cc', SHARED + ONEDNN,
                    flags=['-O3', '-march=native'], libraries=['-ldnnl'])
            for what in ('step', 'ops')]),
    ]
    groups = [Group('libtorch', ['torch', 'torch+']), Group('oneDNN', ['onednn'])]
    return suites, groups


def ours():
    return Suite(OURS, [Program(f'benchmarks/{name}.cc', bazel=f'//benchmarks:{name}')
                        for name in ('ringrad_step', 'ringrad_ops', 'ringrad_sequence')])


def python_peers(python):
    """The suites of the torch that the interpreter `python` imports: its libtorch, called from the
    same C++ program as Debian's, and the script. Raises ValueError where there is no torch."""
    query = ('import os, torch; print(torch.__version__.split("+")[0]); '
             'print(os.path.dirname(torch.__file__)); print(int(torch.compiled_with_cxx11_abi()))')
    answer = subprocess.run([python, '-c', query], capture_output=True, text=True, check=False)
    facts = answer.stdout.split()
    if answer.returncode != 0 or len(facts) != 3:
        raise ValueError(f'--python: {python} must import torch; got exit status '
                         f'{answer.returncode}\n{answer.stderr.strip()}')
    version, folder, new_abi = facts
    name = 'torch-' + re.sub(r'[^0-9.]', '', version)
    scripts = [Program(f'benchmarks/peers/torch_{what}.py', launcher=[python]) for what in ('step', 'sequence')]
    suites = [Suite(name + '.py', scripts), Suite(name + '.py+', scripts, KEEPS_MEMORY)]
    compiled = Suite(name + '.compile', [Program('benchmarks/peers/torch_sequence.py', launcher=[python],
                                                 arguments=['--compile'])], KEEPS_MEMORY)
    library = os.path.join(folder, 'lib')
    if new_abi == '1' and os.path.isdir(os.path.join(folder, 'include')):
        flags = ['-isystem', f'{folder}/include',
                 '-isystem', f'{folder}/include/torch/csrc/api/include']
        programs = torch_programs(
            flags, [f'-L{library}', f'-Wl,-rpath,{library}', *TORCH_LIBRARIES])
        suites += [Suite(name, programs), Suite(name + '+', programs, KEEPS_MEMORY)]
    groups = [Group(f'PyTorch {version}', [suite.name for suite in suites]),
              Group(f'torch.compile {version}', [compiled.name])]
    return [*suites, compiled], groups
