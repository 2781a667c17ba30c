#!/usr/bin/env python3
"""Writes the bindings of free functions, layers and enumerations from the C++ headers, docstrings included.

    generate.py INCLUDE OUT        INCLUDE holds ringrad/ringrad.h; writes OUT/{enums,operators,linalg,nn,plan}.cc

A function becomes a Python function of the same name, and a method of Tensor if it begins with a tensor. Arguments
keep their names and defaults. Some have another form in Python:

    Where where                    left out: the line of the Python caller
    const XOptions& options        keyword arguments, one for each field
    PerAxis<2> stride              a number for both axes, or one for each
    const Tensor& bias = {}        may be None, as may be every further tensor of a function that says "undefined"
    Generator& generator = ...     may be None, which means the thread's generator
    Device device = ...            text; None means the thread's default device
    std::span<const T> list        any sequence
    const Shape& shape             numbers in a sequence, one number, or, in what SPREAD lists, several arguments
    std::function<...> f           any callable; what it returns is checked

A struct XResult becomes a class that also unpacks: q, r = linalg.qr(x). A template's names, as in
`using Conv2d = Conv<2>;`, become classes.

The headers are ours, so this reads as much C++ as they contain, and no more. SKIPPED lists which functions and classes
Python does not get. Layers get no methods of their own, such as LSTM's run() (README.md).
"""
import keyword
import re
import sys
from pathlib import Path

SKIPPED = {
    'from_values': 'tensor makes one of lists',
    'tensor': 'bound by hand: takes arrays, too',
    'from_memory': 'from_dlpack and from_numpy share memory',
    'default_generator': 'bound by hand: Python shares it',
    'register_hook': 'bound by hand as a method: a hook may return None',
    'register_completed_hook': 'for DistributedDataParallel',
    'backward_inputs': 'for pipelines',
    'assign': 'x[...] = y',
    'begin': "Python's own iteration",
    'end': "Python's own iteration",
    'fans_of': 'for initialisers',
    'check_same_layout': 'for load_state_dict',
    'copy_state': 'for load_state_dict',
    'needs_grad': "for operators' authors",
    'autocast_dtype': "for operators' authors",
    'autocasting': "for operators' authors",
    'in_first_half': "for operators' authors",
    'leave_to_second_half': "for operators' authors",
    'crc_digits': 'for checkpoints',
    'dtype_name': 'for checkpoints',
    'dtype_of_name': 'for checkpoints',
    'may_be_file': 'for checkpoints',
    'tensor_file_facts': 'for checkpoints',
    'frames_to_draw': 'for drawings',
    'mean_costs': 'for planners',
    'owner': 'for proved plans only',
    'is_promised': 'for proved plans only',
    'plan_shape_check': 'part of plan_check',
    'is_compute': "for plans' authors",
    'chunk_range': "for plans' authors",
    'adds': "for plans' authors",
    'contributor': 'for proved plans only',
    'first_integers': "for plans' authors",
    'has_messages': "for plans' authors",
}
SKIPPED_CLASSES = {
    'CapturedStep': 'for kernels of GPUs, which are called from C++',
    'Checkpoint': 'tensors are written by name, write_tensors(path, net.state_dict())',
    'ModuleContainer': 'bound by hand: ModuleList and ModuleDict',
    'ModuleDict': 'bound by hand: of any modules',
    'ModuleList': 'bound by hand: of any modules',
    'ParameterGroups': 'bound by hand: made of lists',
    'Progress': 'Python has progress bars',
    'Sequential': 'bound by hand: its layers are arguments',
}
SPREAD = {'empty', 'expand', 'flip', 'ones', 'permute', 'rand', 'randn', 'repeat', 'reshape', 'tile', 'zeros'}
PYTHONS = {'operator()': ['__call__'], 'svg': ['svg', '_repr_svg_']}  # a notebook shows what has the last
SKIPPED_TYPES = re.compile(r'initializer_list|span<const Index>|ParameterArena|StepOp|PlanFault|GPTLinears')
PLAN = [f'parallel/plan/{name}.h' for name in (
    'collective/collective_plan', 'collective/algorithms', 'collective/check', 'predict/cost',
    'predict/collective_cost', 'draw/draw_collective', 'file/plan_json', 'pipeline/pipeline_plan',
    'pipeline/pipeline_schedules', 'pipeline/pipeline_check', 'predict/pipeline_cost', 'draw/draw_pipeline',
    'file/pipeline_json')]
ENUMS = {'CausalAlignment': 'kernels/problem/attention_options', 'DType': 'core/dtype', 'Layout': 'core/base/shape',
         'Reduction': 'kernels/loss/loss_reduction', 'Interpolation': 'kernels/pool/resample', 'Fan': 'nn/init',
         'PadMode': 'autograd/shape/pad', 'Indexing': 'autograd/shape/repeat',
         'ReduceOp': 'parallel/comm/common/reduce_op', 'Overlap': 'parallel/train/data_parallel/reducer',
         'Collective': 'parallel/plan/collective/collective_plan', 'Wiring': 'parallel/plan/predict/cost',
         'PipelineOp': 'parallel/plan/pipeline/pipeline_plan'}


# -- Reading ----------------------------------------------------------------------------------------------------------

def split(text):
    """The parts of a list; brackets keep theirs together."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text + ','):
        depth += (char in '(<{[') - (char in ')>}]')
        if char == ',' and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in parts if part]


def end_of_block(text, start):
    depth = 0
    for token in re.compile(r'''//.*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|[{}]''').finditer(text, start):
        depth += (token[0] == '{') - (token[0] == '}')
        if depth == 0:
            return token.start()
    raise ValueError(f'a block must end; got none that does: {text[start:start + 80]}')


def declarations(text, scope='ringrad'):
    """(scope, doc, head, body) of what a header declares in its namespaces, or a class in its block."""
    doc, place = [], 0
    while place < len(text):
        line = text[place:].split('\n', 1)[0]
        namespace = re.match(r'namespace ([\w:]+) {$', line)
        if namespace:
            start = place + line.index('{')
            end = end_of_block(text, start)
            if namespace[1] != 'detail':
                yield from declarations(text[start + 1:end], namespace[1])
            place = end + 1
        elif re.match(r'\s*///', line):
            doc.append(line.strip()[3:].removeprefix(' '))
            place += len(line) + 1
        elif re.match(r'\s*(//|#|}|$)', line):
            doc, place = [], place + len(line) + 1
        elif re.match(r'\s*(public|protected|private):', line):
            yield scope, '', line.strip(), ''
            place += len(line) + 1
        else:
            depth = 0  # of brackets; outside them a semicolon or a block ends the declaration
            for end in range(place, len(text)):
                char = text[end]
                if depth == 0 and (char == ';' or char == '{' and not text[:end].endswith('= ')):
                    break
                depth += (char in '({') - (char in ')}')
            head, body = text[place:end], ''
            if text[end] == '{':
                body = text[end + 1:end_of_block(text, end)]
                end = end_of_block(text, end)
            after = text[end:].split('\n', 1)[0]
            if '///<' in after:
                doc = [after.split('///<')[1].strip()]
            yield scope, '\n'.join(doc), ' '.join(re.sub(r'//.*', '', head).split()), body
            doc, place = [], end + len(after) + 1


TEMPLATE = re.compile(r'((?:///.*\n)*)template <([^>]*)>\n((?:class|struct) (\w+))(?: : public (\w+)(?:<.*>)?)? {')


def with_instances(text):
    """A header, with a class in place of each `using Conv2d = Conv<2>;`. It also has the members of a base that is a
    template."""
    templates = {}
    for found in TEMPLATE.finditer(text):
        doc, parameters, head, name, base = found.groups()
        body = text[found.end():end_of_block(text, found.end() - 1)]
        if base in templates:
            base, body = templates[base][-2], templates[base][-1] + body
        templates[name] = doc, [parameter.split()[-1] for parameter in split(parameters)], head, base, body

    def instance(alias):
        if alias[2] not in templates:
            return alias[0]
        doc, parameters, head, base, body = templates[alias[2]]
        made = f'{head}{f" : public {base}" if base else ""} {{{body}}};'
        for parameter, argument in zip(parameters, split(alias[3])):
            made = re.sub(rf'\b{parameter}\b', argument, made)
        return f'///\n{doc}' * bool(doc) + re.sub(rf'\b{alias[2]}\b', alias[1], made)

    return re.sub(r'using (\w+) = (\w+)<([^>]*)>;', instance, text)


class Parameter:
    """A C++ parameter, and what stands for it in Python."""

    def __init__(self, text, may_be_none):
        declared, _, self.default = (part.strip() for part in text.partition(' = '))
        self.type, _, self.name = declared.rpartition(' ')
        self.bare = self.type.removeprefix('const ').rstrip('&*')
        self.axes = re.fullmatch(r'PerAxis<(\d)(?:, (\w+))?>', self.bare)
        if self.axes:
            self.type = self.bare = f'std::array<{self.axes[2] or "std::int64_t"}, {self.axes[1]}>'
        self.is_pointer = self.type.endswith('*')
        self.nullable = self.is_pointer or self.default.startswith('default_') or self.bare == 'Tensor' and (
            may_be_none or self.default == '{}')

    def taken(self):
        """What nanobind converts to."""
        span = re.fullmatch(r'std::span<const (.*)>', self.bare)
        if self.bare == 'Device':
            return f'const std::{"optional<std::string>" if self.nullable else "string"}& {self.name}'
        if self.nullable:
            return f'{self.bare}* {self.name}'
        return f'const std::vector<{span[1]}>& {self.name}' if span else f'{self.type} {self.name}'

    def annotation(self):
        if self.nullable:
            return f'"{self.name}"_a.none()' + (' = nb::none()' if self.default else '')
        if self.bare.startswith('std::optional') and self.default:
            return f'"{self.name}"_a = nb::none()'
        exact = '.noconvert()' * (self.bare.split('::')[-1] in ENUMS)  # an enumeration is no number
        value = '' if self.default == '{}' else self.default.strip('{}')
        if self.axes:
            value = f'{self.axes[0]}({value})'
        braces = '{}' if self.default.startswith('{') else '()'
        taken = self.taken().rpartition(' ')[0].removeprefix('const ').rstrip('&')
        return f'"{self.name}"_a{exact}' + (f' = {taken}{braces[0]}{value}{braces[1]}' if self.default else '')

    def given(self):
        """What the C++ function gets."""
        if self.nullable and self.bare == 'Tensor':
            return f'or_undefined({self.name})'
        if self.is_pointer:
            return self.name
        value = f'{"*" * self.nullable}{self.name}'
        if self.bare == 'Device':
            value = f'Device({value}, where)'
        return f'({self.name} ? {value} : {self.default})' if self.nullable else value


class Headers:
    def __init__(self, include):
        self.include = include
        self.options = {}  # by scope and name: the fields, and what is said about each
        self.function_types = set()  # names of types that are a std::function
        for path in sorted((include / 'ringrad').rglob('*.h')):
            text = with_instances(path.read_text())
            self.function_types.update(re.findall(r'^using (\w+) = std::function<', text, re.MULTILINE))
            for scope, _, head, body in declarations(text):
                if re.fullmatch(r'(template <std::size_t N> )?struct \w*Options', head):
                    self.options[scope, head.split()[-1]] = [
                        (field, doc) for _, doc, field, _ in declarations(body) if '(' not in field.split(' = ')[0]]

    def read(self, name):
        return with_instances((self.include / 'ringrad' / name).read_text())

    def included(self, header, folder):
        return [f'{folder}/{name}' for name in re.findall(rf'"ringrad/{folder}/([\w/]+\.h)"', self.read(header))]

    # -- Writing ------------------------------------------------------------------------------------------------------

    def is_function(self, parameter):
        return parameter.bare.startswith('std::function<') or parameter.bare in self.function_types

    def call(self, scope, operation, parameters, doc):
        """What nanobind takes, its annotations, what C++ gets, and the doc with that of the options."""
        taken, notes, given, options_docs = [], [], [], []
        for position, text in enumerate(split(parameters)):
            one = Parameter(text, position > 0 and 'undefined' in doc)
            where = one.bare == 'Where' or one.name == 'Where'
            options, axes = re.fullmatch(r'(?:.*::)?(\w*)(?:<(\d)>)?.*', one.bare).groups()
            known = [name for name in (scope, 'ringrad') if (name, options) in self.options]
            if where:
                given.append('where')
            elif known and options.endswith('Options'):
                struct = 'ringrad' if '::' in one.bare else known[0], options
                defaults = dict(re.findall(r'\.(\w+) = ([^,}]+)', one.default))
                settings = []
                notes.append('nb::kw_only()')
                for field, note in self.options[struct]:
                    field = Parameter(field.replace('<N>', f'<{axes}>'), False)
                    field.default = defaults.get(field.name, field.default)
                    if not any(name.endswith(f' {field.name}') for name in taken):
                        taken.append(field.taken())
                        notes.append(field.annotation())
                        options_docs += [f'  {field.name}: {note}'] if note else []
                        settings.append(f'.{field.name} = {field.given()}')
                given.append(f'{"::".join(struct)}{f"<{axes}>" * bool(axes)}{{{", ".join(settings)}}}')
            else:
                taken.append(one.taken())
                notes.append(one.annotation())
                given.append(f'for_operation("{operation}", {one.name})' if self.is_function(one) else one.given())
        text = '\n'.join([doc, '', *options_docs] if options_docs else [doc])
        return ', '.join(taken), ', '.join([f'R"doc({text})doc"', *notes]), ', '.join(given)

    def functions(self, names, method_of=''):
        """Definitions of the headers' functions."""
        for header in names:
            docs = {}
            for scope, doc, head, _ in declarations(self.read(header)):
                found = re.fullmatch(r'(?:inline |constexpr )*((?:const )?[\w:]+(?:<.*?>)?[&*]?) (\w+)\((.*)\)', head)
                if not found or found[1] in ('template', 'explicit') or found[2] in SKIPPED:
                    continue
                result, name, parameters = found.groups()
                docs.setdefault(name, doc)
                for_operators = re.search(r'\bWhere( \w+)?(,|$)', parameters)  # a line without a default
                if for_operators or SKIPPED_TYPES.search(head):
                    continue
                taken, notes, given = self.call(scope, name, parameters, doc or docs[name])
                define = 'both(m, tensor, ' if method_of and taken.startswith(method_of) else 'm.def('
                made = f'called([&](Where where) {{ (void)where; return {scope}::{name}({given}); }})'
                kept = [p.name for p in map(lambda text: Parameter(text, False), split(parameters)) if self.is_function(p)]
                if kept and result == 'Tensor':
                    made = f'keeping({made}, {kept[0]})'
                yield f'  {define}"{name}", []({taken}) {{\n    return {made};\n  }}, {notes});\n'
                if name in SPREAD:
                    shape = re.search(r'const Shape& (\w+)', taken)
                    taken = taken.replace(shape[0], 'const nb::args& numbers')
                    yield (f'  {define}"{name}", []({taken}) {{\n    const Shape {shape[1]} = spread("{name}", numbers);\n'
                           f'    return {made};\n  }}, {notes});\n')

    def results(self, names):
        """Definitions of the structs of tensors that functions return."""
        for header in names:
            for scope, _, head, body in declarations(self.read(header)):
                name = re.fullmatch(r'struct (\w+Result)', head)
                if not name:
                    continue
                full = f'{scope}::{name[1]}'
                fields = [(field.split()[1], doc) for _, doc, field, _ in declarations(body)]
                yield f'  nb::class_<{full}>(m, "{name[1]}")'
                for field, doc in fields:
                    yield f'\n    .def_ro("{field}", &{full}::{field}, R"doc({doc})doc")'
                values = ', '.join(f'self.{field}' for field, _ in fields)
                yield (f'\n    .def("__iter__", [](const {full}& self) {{ return nb::iter(nb::make_tuple({values})); }},'
                       '\n         nb::sig("def __iter__(self) -> collections.abc.Iterator[ringrad.Tensor]"));\n')

    def layers(self, names):
        """Definitions of modules, optimizers and other classes: constructors, and tensors that are public. Classes
        without a base also get their methods, since module.cc binds those of bases alone."""
        found = []
        for header in names:
            for scope, doc, head, body in declarations(self.read(header)):
                match = re.fullmatch(r'class (\w+)(?: : public (\w+))?', head)
                if match and body and match[1] not in SKIPPED_CLASSES:
                    about = re.match(rf'// {match[1]}: (.*)', self.read(header))
                    found.append((scope, *match.groups(), doc or about and about[1][0].upper() + about[1][1:] or '', body))
        bases = {base for _, _, base, _, _ in found}
        for scope, name, base, doc, body in found:
            full, constructors, tensors, methods, access = f'{scope}::{name}', [], [], [], 'private:'
            for _, note, member, _ in declarations(body):
                access = member if member in ('public:', 'protected:', 'private:') else access
                made = re.match(rf'(?:explicit )?{name}\((.*?)\)(?: : .*)?$', member)
                method = re.fullmatch(r'([\w:]+(?:<.*?>)?|const [\w:<>]+&) (operator\(\)|\w+)\((.*)\)(?: const)?', member)
                if made:
                    constructors.append((access, note, made[1]))
                elif access == 'public:' and member.startswith('Tensor ') and '(' not in member:
                    tensors += split(member.removeprefix('Tensor '))
                elif access == 'public:' and method and not base:
                    methods.append((note, *method.groups()))
            if not constructors and name not in bases:
                constructors = [('public:', '', '')]
            final = '' if name in bases else 'nb::is_final(), '  # C++ calls no forward() of a subclass
            types = f'{full}, {scope}::{base}' if base else full
            guards = [result for _, result, _, _ in methods if f'class {result} {{' in body]
            for guard in guards:
                scoped = f'Scope<{full}::{guard}, const {full}&, Where>'
                yield (f'  nb::class_<{scoped}>(m, "{name}{guard}")\n    .def("__enter__", &{scoped}::enter)'
                       f'\n    .def("__exit__", &{scoped}::exit);\n')
            yield f'  nb::class_<{types}>(m, "{name}", {final}R"doc({doc})doc")'
            for access, note, parameters in constructors:
                if access == 'public:':
                    taken, notes, given = self.call(scope, name, parameters, note)
                    for place, one in enumerate(split(taken), start=2):  # 1 is self
                        if '& ' in one and not one.startswith('const '):
                            notes += f', nb::keep_alive<1, {place}>()'
                    yield (f'\n    .def("__init__", []({full}* self{", " * bool(taken)}{taken}) {{\n      called('
                           f'[&](Where where) {{ (void)where; new (self) {full}({given}); }});\n    }}, {notes})')
            for tensor in tensors:
                yield f'\n    .def_prop_ro("{tensor}", [](const {full}& layer) {{ return defined(layer.{tensor}); }})'
            for note, result, method, parameters in methods:
                taken, notes, given = self.call(scope, f'{name}.{method}', parameters, note)
                made = f'self.{method}({given})'
                if result in guards:
                    made, notes = f'new Scope<{full}::{result}, const {full}&, Where>{{{{self, where}}}}', notes + ', nb::keep_alive<0, 1>()'
                for python in PYTHONS.get(method, [method]):
                    yield (f'\n    .def("{python}", []({full}& self{", " * bool(taken)}{taken}) {{\n'
                           f'      return called([&](Where where) {{ (void)where; return {made}; }});\n    }}, {notes})')
            yield ';\n'

    def enums(self):
        for name, header in ENUMS.items():
            for scope, doc, head, body in declarations(self.read(header + '.h')):
                if re.match(rf'enum class {name}\b', head):
                    module = 'nn' if scope.endswith('nn') else 'm'
                    yield f'  nb::enum_<{scope}::{name}>({module}, "{name}", R"doc({doc})doc")'
                    for value in re.findall(r'^\s*(\w+)', re.sub(r'//.*', '', body).replace(',', '\n'), re.MULTILINE):
                        python = value + '_' * keyword.iskeyword(value)
                        yield f'\n    .value("{python}", {scope}::{name}::{value})'
                    yield '.export_values();\n' if name == 'DType' else ';\n'


def main():
    include, out = Path(sys.argv[1]), Path(sys.argv[2])
    headers = Headers(include)
    operators = ['core/make_tensor.h', 'core/random/random.h', *headers.included('nn.h', 'autograd'), 'autograd/broadcast.h']
    linalg = headers.included('linalg.h', 'autograd')
    layers = headers.included('nn.h', 'nn')
    for name, arguments, definitions in (
            ('enums', 'nb::module_& m, nb::module_& nn', headers.enums()),
            ('operators', 'nb::module_& m, nb::class_<Tensor>& tensor', headers.functions(operators, 'const Tensor&')),
            ('linalg', 'nb::module_& m', [*headers.results(linalg), *headers.functions(linalg)]),
            ('nn', 'nb::module_& m', [*headers.layers(layers), *headers.functions(layers)]),
            ('plan', 'nb::module_& m', headers.functions(PLAN))):
        (out / f'{name}.cc').write_text('// Made by generate.py.\n#include "bindings.h"\n\nnamespace ringrad::python {\n\n'
                                        f'void bind_{name}({arguments}) {{\n'
                                        f'  using namespace ringrad::nn;\n{"".join(definitions)}}}\n\n'
                                        '}  // namespace ringrad::python\n')


if __name__ == '__main__':
    main()
