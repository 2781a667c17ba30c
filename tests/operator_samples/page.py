"""expected.json, and the page docs/operator_samples.md that is made of it. Needs no PyTorch."""
import collections
import itertools
import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / 'expected.json'
PAGE = HERE.parents[1] / 'docs/operator_samples.md'
STATUSES = {'=': 'equal', 'x': 'different', 'r': 'refused', '-': 'not sayable', 's': 'skipped', 'a': 'accepted'}
KINDS = ('float64', 'float32', 'bfloat16', 'int64')

HEAD = """\
# Operators beside PyTorch's own samples

PyTorch carries samples of its operators' arguments, and of arguments that must be errors. `tools/operator_samples`
([tests/operator_samples](../tests/operator_samples/README.md)) runs each one here and in PyTorch {torch}, with values and
gradients in float64, float32, bfloat16 and int64. It writes this page, and fails if a sample that was equal is no longer.

| | samples |
|---|---|
| equal | {equal} |
| different, for the reason in the table | {different} |
| refused by an exception that says why | {refused} |
| not sayable: our signature lacks the argument | {unsaid} |
| arguments that PyTorch refuses: refused | {errors_refused} |
| arguments that PyTorch refuses: accepted | {errors_accepted} |

Numbers in the table are samples; operators without a row are equal in all of them. `lacks` names arguments of PyTorch's, or
the types of a call, that ours does not take. PyTorch's names with a bar are variants of one operator.

| PyTorch | equal | different | refused | not sayable | wrongly accepted | why |
|---|---|---|---|---|---|---|
"""


def names():
    """Of OPERATORS, in its order."""
    from operators import OPERATORS
    return list(OPERATORS)


def read():
    return json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}


def packed(statuses):
    """===r as 3=r."""
    runs = ((status, len(list(run))) for status, run in itertools.groupby(statuses))
    return ''.join((str(count) if count > 1 else '') + status for status, count in runs)


def expanded(text):
    return ''.join(status * int(count or 1) for count, status in re.findall(r'(\d*)(\D)', text))


def reason(status, text):
    """A message without its facts, for the table."""
    text = re.sub(r'\s+', ' ', text.split('; got')[0].split(', not ')[0])
    if status == 'x':
        text = re.sub(r'\[\d+\].*', '', text)
    return text.replace('|', '\\|')[:100]


def summary(results):
    """What expected.json keeps of an operator's results."""
    why = collections.defaultdict(collections.Counter)
    for kind, outcomes in results.items():
        for status, text in outcomes:
            if status in ('xra' if kind == 'errors' else 'xr-') and not (kind == 'errors' and status == 'r'):
                why[status][reason(status, text)] += 1
    return {'samples': {kind: packed(''.join(status for status, _ in outcomes)) for kind, outcomes in results.items()
                        if outcomes},
            'why': {status: [text for text, _ in texts.most_common(3)] for status, texts in sorted(why.items())}}


def why_different(name):
    from operators import OPERATORS
    row = OPERATORS[name]
    return '' if isinstance(row, list) else row.why


def write(found):
    """Keeps what is known of operators that are not among `found`."""
    import torch
    known = read()
    kept = {name: summary(found[name]) if name in found else known[name] for name in names()}
    unexplained = {name: row['why']['x'] for name, row in kept.items() if 'x' in row['why'] and not why_different(name)}
    if unexplained:
        raise SystemExit(f'operators.py must say why results differ; got no `why` of {unexplained}')
    lines = ',\n'.join(f'{json.dumps(name)}: {json.dumps(kept[name])}' for name in kept)
    EXPECTED.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}",\n{lines}}}\n')
    PAGE.write_text(rendered(read()))


def cell(name, row):
    """Why, in the words of the messages and of operators.py."""
    words = {'r': 'refuses: ', '-': 'lacks ', 'a': 'accepts: '}
    parts = [words[status] + '; '.join(texts) for status, texts in row['why'].items() if status != 'x']
    if 'x' in row['why']:
        parts.insert(0, 'differs: ' + why_different(name))
    return '. '.join(parts)


def rendered(expected):
    totals, lines = collections.Counter(), []
    torch = expected.pop('torch')
    for name, row in expected.items():
        samples = ''.join(expanded(text) for kind, text in row['samples'].items() if kind != 'errors')
        errors = expanded(row['samples'].get('errors', ''))
        counts = collections.Counter(samples)
        totals.update(equal=counts['='], different=counts['x'], refused=counts['r'], unsaid=counts['-'],
                      errors_refused=len(errors) - errors.count('a'), errors_accepted=errors.count('a'))
        if counts['x'] + counts['r'] + counts['-'] + errors.count('a'):
            shown = [str(n) if n else '' for n in (counts['='], counts['x'], counts['r'], counts['-'], errors.count('a'))]
            lines.append(f'| `{name}` | '.replace('|', '\\|', name.count('|') + 1).replace('\\|', '|', 1)
                         + ' | '.join(shown) + f' | {cell(name, row)} |\n')
    return HEAD.format(torch=torch, **{key: f'{totals[key]:,}' for key in (
        'equal', 'different', 'refused', 'unsaid', 'errors_refused', 'errors_accepted')}) + ''.join(lines)
