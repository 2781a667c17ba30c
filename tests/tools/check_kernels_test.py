#!/usr/bin/env python3
"""The findings of tools/check_kernels in made-up PTX."""
import importlib.machinery
import importlib.util
import sys
import unittest

sys.dont_write_bytecode = True
_loader = importlib.machinery.SourceFileLoader('check_kernels', 'tools/check_kernels')
_spec = importlib.util.spec_from_loader('check_kernels', _loader)
check_kernels = importlib.util.module_from_spec(_spec)
_loader.exec_module(check_kernels)


def object_with(body, kernel='_Z4waitPj'):
    """An object file's text with one kernel."""
    return f'\x7fELF\x00\x01.version 9.0\n.visible .entry {kernel}(\n\t.param .u64 p\n)\n{{\n{body}\n}}\n\x00\x00'


def faults(body, kernel='_Z4waitPj'):
    (found, lines), = check_kernels.read_ptx(object_with(body, kernel))
    assert found == kernel
    return list(check_kernels.waiting_faults(kernel, lines))


class WaitingTest(unittest.TestCase):
    def test_scopes_must_be_the_systems(self):
        self.assertEqual(faults('\tst.release.gpu.u32 [%rd1], %r1;'), ['st.release.gpu.u32 must have .sys scope'])
        self.assertEqual(faults('\tatom.acq_rel.cta.global.add.u32 %r1, [%rd1], 1;'),
                         ['atom.acq_rel.cta.global.add.u32 must have .sys scope'])
        self.assertEqual(faults('\tst.release.sys.global.u32 [%rd1], %r1;\n\tfence.acq_rel.sys;'), [])

    def test_accesses_without_a_scope_are_a_kernels_own(self):
        self.assertEqual(faults('\tld.global.u32 %r1, [%rd1];\n\tatom.global.add.u32 %r2, [%rd1], 1;\n\tbar.sync 0;'), [])

    def test_atomics_of_a_kernel_that_tells_others_must_be_the_systems(self):
        atomics = '\tatom.global{0}.add.u32 %r1, [%rd1], 1;\n\tred.global{0}.add.u32 [%rd2], 1;'
        found = ['atom.global.add.u32 must have .sys scope', 'red.global.add.u32 must have .sys scope']
        tells = '\n\tmembar.sys;'
        self.assertEqual(faults(atomics.format('') + tells), found)
        self.assertEqual(faults(atomics.format('.sys') + tells), [])
        for kernel in ('_Z5checkPN7ringrad11DeviceFaultE', '_Z4waitN7ringrad10KernelCallE'):
            self.assertEqual(faults(atomics.format(''), kernel), found)
            self.assertEqual(faults(atomics.format('.sys'), kernel), [])

    def test_a_gpus_kernels_may_compete_for_a_note(self):
        competes = '\tatom{0}.global.cas.b32 %r1, [%rd1], 0, 1;\n\tst.release.sys.u32 [%rd1], %r2;'
        self.assertEqual(faults(competes.format('')), [])
        self.assertEqual(faults(competes.format('.acq_rel.gpu')), ['atom.acq_rel.gpu.global.cas.b32 must have .sys scope'])

    def test_atomics_of_shared_memory_are_a_blocks_own(self):
        self.assertEqual(faults('\tatom.shared.add.u32 %r1, [%r2], 1;\n\tred.shared::cta.add.u32 [%r2], 1;\n\tmembar.sys;'), [])

    def test_a_barrier_is_no_atomic(self):
        self.assertEqual(faults('\tbarrier.red.and.pred %p1, 0, %p2;\n\tmembar.sys;'), [])

    def test_loops_that_poll_must_look_at_a_clock(self):
        polling = '$L__BB0_1:\n\tld.acquire.sys.u32 %r1, [%rd1];\n{}\tsetp.eq.s32 %p1, %r1, 0;\n\t@%p1 bra $L__BB0_1;'
        self.assertEqual(faults(polling.format('')), ['a loop that polls memory must look at a clock'])
        self.assertEqual(faults(polling.format('\tmov.u64 %rd2, %globaltimer;\n')), [])
        self.assertEqual(faults(polling.format('').replace('acquire.sys', 'volatile')),
                         ['a loop that polls memory must look at a clock'])

    def test_loops_that_compute_need_none(self):
        self.assertEqual(faults('$L__BB0_1:\n\tld.global.f32 %f1, [%rd1];\n\t@%p1 bra $L__BB0_1;'), [])

    def test_a_look_before_a_loop_is_no_poll(self):
        self.assertEqual(faults('\tld.acquire.sys.u32 %r1, [%rd1];\n$L__BB0_1:\n\tadd.s32 %r1, %r1, 1;\n'
                                '\t@%p1 bra $L__BB0_1;'), [])


class ReadTest(unittest.TestCase):
    def test_finds_every_kernel(self):
        text = object_with('\tret;') + object_with('\tret;').replace('_Z4waitPj', '_Z5otherPj')
        self.assertEqual([kernel for kernel, _ in check_kernels.read_ptx(text)], ['_Z4waitPj', '_Z5otherPj'])


if __name__ == '__main__':
    unittest.main()
