"""Tables of medians and ratios from the results that `benchmarks/compare` gathered."""
import re
import statistics

FAMILIES = [  # family of names, title, what a cell shows
    ('step', 'Training step', 'time'),
    ('memory_peak', 'Peak memory of the process of a training step', 'size'),
    ('memory_growth', 'Memory of a training step beyond what the loaded libraries hold', 'size'),
    ('eager', 'Cost of one tiny operation, or of one node of a chain', 'time'),
    ('op', 'Operators', 'time'),
    ('sequence', 'What language models and sequences need', 'time'),
]


class Results:
    """Rows by (suite, name with variant, threads): {round: (value, busy)}.

    The value is in microseconds, or in MiB for memory; less is better.
    """

    def __init__(self):
        self.rows = {}

    def add(self, round_number, row):
        key = (row.suite, row.name, row.threads)
        rounds = self.rows.setdefault(key, {})
        old = rounds.get(round_number)
        new = (row.value, row.busy)
        # A sample that nothing disturbed is better than any other; then the lower is.
        if old is None or (new[1], new[0]) < (old[1], old[0]):
            rounds[round_number] = new

    def median(self, key):
        rounds = self.rows[key].values()
        quiet = [value for value, busy in rounds if not busy]
        return statistics.median(quiet or [value for value, _ in rounds])

    def disturbed(self, key):
        return all(busy for _, busy in self.rows[key].values())

    def best(self, suites, name, threads):
        """The key of the fastest variant among `suites`, or None if no suite has the case."""
        keys = [key for key in self.rows
                if key[0] in suites and key[2] == threads and key[1].split('@')[0] == name]
        return min(keys, key=self.median, default=None)

    def ratio(self, ours, theirs):
        """Median over the rounds in which both took part; only undisturbed rounds if there are any."""
        mine, other = self.rows[ours], self.rows[theirs]
        both = sorted(set(mine) & set(other))
        quiet = [r for r in both if not mine[r][1] and not other[r][1]]
        ratios = [other[r][0] / mine[r][0] for r in quiet or both]
        return statistics.median(ratios) if ratios else None


def comparisons(results, ours, groups, goals):
    """One record per case, thread count and group: both medians, the ratio, the goal if any."""
    cases = dict.fromkeys((name.split('@')[0], threads) for _, name, threads in results.rows)
    for name, threads in cases:
        mine = results.best([ours], name, threads)
        for group in groups:
            theirs = results.best(group.suites, name, threads)
            if theirs is None:
                continue
            ratio = results.ratio(mine, theirs) if mine else None
            goal = next((goal.ratio for goal in goals
                         if re.search(goal.group, group.title)
                         and re.search(goal.name, name)), None)
            yield {'name': name, 'threads': threads, 'group': group.title,
                   'ours': results.median(mine) if mine else None,
                   'theirs': results.median(theirs), 'suite': theirs[0],
                   'variant': theirs[1].partition('@')[2], 'ratio': ratio, 'goal': goal,
                   'reached': ratio >= goal if ratio and goal else None}


def three_digits(value):
    return f'{value:.0f}' if value >= 100 else f'{value:.1f}' if value >= 10 else f'{value:.2f}'


def show(value, kind):
    if kind == 'size':
        return three_digits(value) + ' MiB'
    for limit, scale, unit in ((1, 1e3, 'ns'), (1e3, 1, 'us'), (1e6, 1e-3, 'ms')):
        if value < limit:
            return f'{three_digits(value * scale)} {unit}'
    return three_digits(value * 1e-6) + ' s'


def peer_cell(record, kind):
    if record is None:
        return ''
    label = '@'.join(filter(None, (record['suite'], record['variant'])))
    cell = f"{show(record['theirs'], kind)} ({label})"
    if record['ratio'] is not None:
        cell += f", **{three_digits(record['ratio'])}x**"
    if record['goal'] is not None:
        verdict = {True: ', reached', False: ', missed', None: ''}[record['reached']]
        cell += f" [goal {record['goal']:g}x{verdict}]"
    return cell


def table(results, ours, records, family, kind, threads):
    chosen = [r for r in records if r['threads'] == threads and r['name'].split('/')[0] == family]
    mine = dict.fromkeys(name.split('@')[0] for suite, name, t in results.rows
                         if suite == ours and t == threads and name.split('/')[0] == family)
    names = list(dict.fromkeys([r['name'] for r in chosen] + list(mine)))
    if not names:
        return
    titles = list(dict.fromkeys(r['group'] for r in chosen))
    yield '| case | ' + ' | '.join([ours, *titles]) + ' |'
    yield '|---' * (len(titles) + 2) + '|'
    for name in names:
        key = results.best([ours], name, threads)
        cells = [show(results.median(key), kind) + ('~' if results.disturbed(key) else '')
                 if key else '']
        for title in titles:
            record = next((r for r in chosen if r['name'] == name and r['group'] == title), None)
            cells.append(peer_cell(record, kind))
        yield f"| {name.split('/', 1)[1]} | " + ' | '.join(cells) + ' |'


def markdown(results, ours, records):
    """All tables. A ratio above 1 is the factor by which we are faster or smaller."""
    for family, title, kind in FAMILIES:
        counts = sorted({threads for _, name, threads in results.rows
                         if name.split('/')[0] == family})
        for threads in counts:
            unit = 'thread' if threads == 1 else 'threads'
            yield f'\n### {title}, {threads} {unit}\n'
            yield from table(results, ours, records, family, kind, threads)
