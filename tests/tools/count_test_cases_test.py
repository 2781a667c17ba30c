#!/usr/bin/env python3
"""The counts of tools/count_test_cases.py for events as Bazel 4.2 writes them."""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

CASES = '<testsuites><testsuite><testcase name="A" classname="S"/><testcase name="B" classname="S"/></testsuite></testsuites>'
FAILED = ('<testsuites><testsuite><testcase name="A" classname="S"/><testcase name="B" classname="S"><failure/></testcase>'
          '</testsuite></testsuites>')


class CountTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def result(self, label, status, cases=None):
        event = {'id': {'testResult': {'label': label, 'run': 1, 'shard': 1}}, 'testResult': {'status': status} if status else {}}
        if cases:
            xml = self.folder / f'{len(list(self.folder.iterdir()))}.xml'
            xml.write_text(cases)
            event['testResult']['testActionOutput'] = [{'name': 'test.xml', 'uri': xml.as_uri()}]
        return event

    @staticmethod
    def aborted(label):
        """A test that ran when Ctrl-C was pressed."""
        return {'id': {'testResult': {'label': label, 'run': 1, 'shard': 1}}, 'aborted': {'reason': 'USER_INTERRUPTED'}}

    @staticmethod
    def not_completed(label):
        return {'id': {'targetCompleted': {'label': label}}, 'aborted': {'reason': 'USER_INTERRUPTED'}}

    def count(self, status, *events, end='\n'):
        path = self.folder / 'events'
        path.write_text('\n'.join(json.dumps(event) for event in events) + end)
        run = subprocess.run(['python3', 'tools/count_test_cases.py', path, str(status)], capture_output=True, text=True)
        self.assertEqual(run.stderr, '')
        return run.returncode, run.stdout.splitlines()

    def test_cases_are_counted(self):
        self.assertEqual(self.count(0, self.result('//a:a', 'PASSED', CASES), self.result('//b:b', 'PASSED', CASES)),
                         (0, ['4 passed, 0 failed']))
        self.assertEqual(self.count(3, self.result('//a:a', 'FAILED', FAILED)), (1, ['FAILED //a:a: S.B', '1 passed, 1 failed']))
        self.assertEqual(self.count(3, self.result('//a:a', 'TIMEOUT')),
                         (1, ['FAILED //a:a: TIMEOUT outside a test case', '0 passed, 1 failed']))
        self.assertEqual(self.count(1, self.not_completed('//a:a')),
                         (1, ['FAILED //a:a: did not build or did not run', '0 passed, 1 failed']))

    def test_an_interrupted_run_reports_what_ran(self):
        code, lines = self.count(8, self.result('//a:a', 'PASSED', CASES), self.result('//b:b', 'FAILED', FAILED),
                                 self.aborted('//c:c'), self.not_completed('//c:c'), self.not_completed('//d:d'),
                                 self.result('//e:e', 'INCOMPLETE'), self.result('//f:f', None))
        self.assertEqual((code, lines), (1, ['FAILED bazel test: interrupted before 4 targets had a result',
                                             'FAILED //b:b: S.B', '3 passed, 2 failed']))

    def test_a_killed_run_reports_what_ran(self):
        code, lines = self.count(137, self.result('//a:a', 'PASSED', CASES), end='\n{"id": {"testRes')
        self.assertEqual((code, lines), (1, ['FAILED bazel test: exit code 137 without a failed test', '2 passed, 1 failed']))


if __name__ == '__main__':
    unittest.main()
