"""Counts the test cases of one `bazel test` run, from the events that Bazel wrote.

    python3 tools/count_test_cases.py EVENTS.json BAZEL_EXIT_CODE

Prints every failure on a line of its own, then `N passed, N failed`; exits with 1 if anything
failed. An error outside a test case counts as one failure: a target that does not build, a
test that crashes, times out or leaks after its last case passed, a run that ends without a result.
A run that was interrupted, as by Ctrl-C, is one failure too; what ran before is counted.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


INTERRUPTED = 8  # Bazel's exit code
UNFINISHED = ("NO_STATUS", "INCOMPLETE")


def status_of(result):
    """A result's status, which Bazel leaves out if there is none."""
    return result.get("status", "NO_STATUS")


def read_events(path):
    """Yields the events, one JSON object per line; a killed Bazel leaves the last line cut off."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


def collect(events):
    """Returns (results, broken): {(label, run, shard): last attempt}, {labels without a result}."""
    results, broken = {}, set()
    for event in events:
        kind, key = next(iter(event["id"].items()))
        if kind == "testResult" and "testResult" in event:  # else aborted: it did not end
            results[key["label"], key.get("run"), key.get("shard")] = event["testResult"]
        elif kind == "targetCompleted" and not event.get("completed", {}).get("success"):
            broken.add(key["label"])
        elif kind == "pattern" and "aborted" in event:
            broken.update(key["pattern"])
    return results, broken - {label for label, _, _ in results}


def read_cases(result):
    """Returns (names of passed cases, names of failed cases) from the test's XML."""
    passed, failed = [], []
    for output in result.get("testActionOutput", []):
        if output["name"] != "test.xml" or not output.get("uri", "").startswith("file://"):
            continue
        path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
        try:
            cases = list(xml.etree.ElementTree.parse(path).iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            continue
        for case in cases:
            name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(name)
            elif case.get("result", "completed") == "completed":  # neither skipped nor disabled
                passed.append(name)
    return passed, failed


def main():
    events_path, bazel_status = sys.argv[1], int(sys.argv[2])
    results, broken = collect(read_events(events_path))

    num_passed, failures = 0, []
    if bazel_status == INTERRUPTED:
        unfinished = [key for key, result in results.items() if status_of(result) in UNFINISHED]
        for key in unfinished:
            del results[key]
        broken.update(label for label, _, _ in unfinished)
        failures.append(f"bazel test: interrupted before {len(broken)} targets had a result")
    else:
        failures += [f"{label}: did not build or did not run" for label in sorted(broken)]
    for (label, _, _), result in sorted(results.items(), key=lambda item: str(item[0])):
        passed, failed = read_cases(result)
        num_passed += len(passed)
        failures += [f"{label}: {name}" for name in failed]
        if status_of(result) != "PASSED" and not failed:
            failures.append(f"{label}: {status_of(result)} outside a test case")
    if bazel_status != 0 and not failures:
        failures.append(f"bazel test: exit code {bazel_status} without a failed test")

    for failure in failures:
        print("FAILED", failure)
    print(f"{num_passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
