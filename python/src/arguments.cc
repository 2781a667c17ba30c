// One line for arguments that fit no signature: which argument, what it must be, what it was.
//
// nanobind answers such a call with a TypeError that lists all signatures. Python calls an object
// through a pointer in the object (the vectorcall protocol), so each function of this module gets
// another pointer there, which calls nanobind's and says more if that fails.

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bindings.h"

namespace ringrad::python {
namespace {

// --- Signatures, as nanobind writes them ---

struct Argument {
  std::string name, type;
  bool is_required = true;
  bool is_keyword_only = false;
};

struct Signature {
  std::string name;
  std::vector<Argument> arguments;
  bool is_variadic = false;
};

// Parts between separators that lie in no brackets.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : separator;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c != separator || (depth != 0 && i < text.size())) continue;
    std::string_view part = text.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

// "def name(a: type, *, b: type = value) -> type"
Signature signature_of(std::string_view text) {
  Signature signature;
  if (text.starts_with("def ")) text.remove_prefix(4);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) return signature;
  signature.name = text.substr(0, open);
  std::size_t close = open;
  for (int depth = 0; close < text.size(); ++close) {
    depth += (text[close] == '(') - (text[close] == ')');
    if (depth == 0) break;
  }
  bool is_keyword_only = false;
  for (const std::string_view part : split(text.substr(open + 1, close - open - 1), ',')) {
    if (part.starts_with('*')) is_keyword_only = true;
    if (part.starts_with('*')) signature.is_variadic |= part != "*";
    if (part.starts_with('*') || part == "/") continue;
    const std::string_view declared = part.substr(0, part.find(" = "));
    const std::size_t colon = declared.find(": ");
    Argument argument;
    argument.name = declared.substr(0, colon);
    if (colon != std::string_view::npos) argument.type = declared.substr(colon + 2);
    argument.is_required = declared.size() == part.size();
    argument.is_keyword_only = is_keyword_only;
    signature.arguments.push_back(std::move(argument));
  }
  return signature;
}

// --- Whether a value fits a type ---

std::string full_name(PyTypeObject* type) {
  return nb::type_name(nb::handle(reinterpret_cast<PyObject*>(type))).c_str();
}

bool is_instance(PyObject* value, std::string_view name) {
  const nb::tuple types = nb::borrow<nb::tuple>(Py_TYPE(value)->tp_mro);
  return std::any_of(types.begin(), types.end(), [&](nb::handle type) {
    return full_name(reinterpret_cast<PyTypeObject*>(type.ptr())) == name;
  });
}

bool fits(PyObject* value, std::string_view type);

bool is_sequence_of(PyObject* value, std::string_view type) {
  const std::size_t open = type.find('[');
  if (PyUnicode_Check(value) || !PySequence_Check(value)) return false;
  if (is_instance(value, "ringrad.Tensor") && type.ends_with("[ringrad.Tensor]")) return false;
  if ((!PyList_Check(value) && !PyTuple_Check(value)) || open == std::string_view::npos)
    return true;
  const std::string_view element = type.substr(open + 1, type.size() - open - 2);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
    if (!fits(PySequence_Fast_GET_ITEM(value, i), element)) return false;
  return true;
}

// True if it may fit: types that this does not know fit all values.
bool fits(PyObject* value, std::string_view type) {
  const auto alternatives = split(type, '|');
  return alternatives.empty() ||
         std::any_of(alternatives.begin(), alternatives.end(), [&](std::string_view one) {
           if (one == "None") return value == Py_None;
           if (one == "bool") return PyBool_Check(value) != 0;
           if (one == "int") return PyIndex_Check(value) != 0;
           if (one == "float") return PyNumber_Check(value) != 0;
           if (one == "str") return PyUnicode_Check(value) != 0;
           if (one.starts_with("collections.abc.Sequence") || one.starts_with("list") ||
               one.starts_with("tuple"))
             return is_sequence_of(value, one);
           if (one.starts_with("collections.abc.Callable")) return PyCallable_Check(value) != 0;
           return !one.starts_with("ringrad.") || is_instance(value, one);
         });
}

// --- What is said ---

std::string without_modules(std::string text) {
  for (const std::string_view module : {"collections.abc.", "ringrad.nn.", "ringrad."})
    for (std::size_t at; (at = text.find(module)) != std::string::npos;)
      text.erase(at, module.size());
  return text;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal = std::exchange(
          row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row.back();
}

struct Call {
  PyObject* const* values;
  std::size_t num_positional;
  std::vector<std::string> keywords;

  std::size_t size() const { return num_positional + keywords.size(); }
  const char* type_of(std::size_t i) const { return Py_TYPE(values[i])->tp_name; }
  // The value of an argument at this place; null if there is none.
  PyObject* value_of(const Signature& signature, std::size_t place) const {
    const Argument& argument = signature.arguments[place];
    if (place < num_positional) return argument.is_keyword_only ? nullptr : values[place];
    for (std::size_t k = 0; k < keywords.size(); ++k)
      if (keywords[k] == argument.name) return values[num_positional + k];
    return nullptr;
  }
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The names of all signatures, without self.
std::vector<std::string> names_of(const std::vector<Signature>& signatures) {
  std::vector<std::string> names;
  for (const Signature& signature : signatures)
    for (const Argument& argument : signature.arguments)
      if (argument.name != "self" &&
          std::find(names.begin(), names.end(), argument.name) == names.end())
        names.push_back(argument.name);
  return names;
}

// "" if each keyword is one of some signature's.
std::string about_keywords(const std::vector<Signature>& signatures, const Call& call) {
  const std::vector<std::string> names = names_of(signatures);
  for (const std::string& keyword : call.keywords) {
    if (std::find(names.begin(), names.end(), keyword) != names.end()) continue;
    if (names.empty()) return concat("there must be no keywords; got ", keyword);
    const auto nearest = std::min_element(
        names.begin(), names.end(),
        [&](const auto& a, const auto& b) { return distance(a, keyword) < distance(b, keyword); });
    const bool is_near = distance(*nearest, keyword) <= (keyword.size() + 1) / 2;
    return concat("keywords must be among ", joined(names), "; got ", keyword,
                  is_near ? concat(", nearest to ", *nearest) : "");
  }
  return "";
}

std::string about_entries(const Argument& argument, PyObject* value) {
  if (PyDict_Check(value) && argument.type.find("ringrad.Tensor]") != std::string::npos)
    for (const auto& [key, entry] : nb::borrow<nb::dict>(value))
      if (!nb::isinstance<Tensor>(entry))
        return concat("argument ", argument.name, " must have Tensors as values; got ",
                      nb::type_name(entry.type()).c_str(), " at ", nb::repr(key).c_str());
  return "";
}

// Whether a number fits no C++ type; or, as a guess, not a narrow one or one without a sign.
bool is_out_of_range(PyObject* value, bool guess) {
  std::int64_t number = 0;
  if (std::uint64_t large = 0; !nb::try_cast(nb::handle(value), number))
    return guess || !nb::try_cast(nb::handle(value), large);
  return guess && (number < 0 || number > std::numeric_limits<std::int32_t>::max());
}

// What is wrong with a value of the right type; "" if nothing is.
std::string about_value(const Argument& argument, PyObject* value, bool guess) {
  if (nb::inst_check(value) && !nb::inst_ready(value))
    return concat("argument ", argument.name, " must be an initialised object; got ",
                  Py_TYPE(value)->tp_name,
                  " whose super().__init__() has not been called, or whose rank has ended");
  if (argument.type == "int" && PyLong_Check(value) && is_out_of_range(value, guess))
    return concat("argument ", argument.name, " must be in the range of its C++ type; got ",
                  nb::repr(value).c_str());
  if (std::vector<std::int64_t> extents;
      argument.name == "shape" && nb::try_cast(nb::handle(value), extents))
    try {
      (void)Shape(std::span<const std::int64_t>(extents));
    } catch (const Error& error) {
      return std::string(error.message());
    }
  return "";
}

// What is wrong with the call by one signature, and how many of its arguments are right.
struct Complaint {
  std::size_t num_right;
  std::string text;
  std::string wanted{};  // the type of the argument that has another; the text is what comes before
  std::string got{};     // and after it
};

Complaint about(const Signature& signature, const Call& call) {
  std::size_t num_by_position = 0;
  for (const Argument& argument : signature.arguments) num_by_position += !argument.is_keyword_only;
  const bool has_self = !signature.arguments.empty() && signature.arguments[0].name == "self";
  if (call.num_positional > num_by_position && !signature.is_variadic)
    return {0, concat("there must be at most ", num_by_position - has_self,
                      " arguments without a name; got ", call.num_positional - has_self)};
  for (std::size_t place = 0; place < signature.arguments.size(); ++place) {
    const Argument& argument = signature.arguments[place];
    PyObject* const value = call.value_of(signature, place);
    if (!value && argument.is_required)
      return {place, concat("argument ", argument.name, " must be given; got ", call.size(),
                            call.size() == 1 ? " argument" : " arguments")};
    if (value && argument.name != "self" && !fits(value, argument.type))
      return {place, concat("argument ", argument.name, " must be "),
              without_modules(argument.type), concat("; got ", Py_TYPE(value)->tp_name)};
    if (value)
      if (std::string text = about_entries(argument, value); !text.empty()) return {place, text};
  }
  for (const bool guess : {false, true})
    for (std::size_t place = 0; place < signature.arguments.size(); ++place) {
      const Argument& argument = signature.arguments[place];
      PyObject* const value = call.value_of(signature, place);
      if (!value || (argument.name == "self" && signature.name == "__init__")) continue;
      if (std::string text = about_value(argument, value, guess); !text.empty())
        return {place, text};
    }
  std::vector<std::string> given;
  for (std::size_t i = 0; i < call.size(); ++i)
    given.push_back(i < call.num_positional
                        ? call.type_of(i)
                        : concat(call.keywords[i - call.num_positional], ": ", call.type_of(i)));
  std::vector<std::string> wanted;
  for (const Argument& argument : signature.arguments)
    wanted.push_back(argument.name + ": " + argument.type);
  return {signature.arguments.size(), without_modules(concat("arguments must fit (", joined(wanted),
                                                             "); got (", joined(given), ")"))};
}

// The names of properties, by the functions that get or set them, which have none.
std::unordered_map<PyObject*, std::string> properties;

std::string explanation(nb::handle function, const Call& call) {
  std::vector<Signature> signatures;
  for (const nb::handle overload : function.attr("__nb_signature__"))
    signatures.push_back(signature_of(nb::str(overload[0]).c_str()));
  std::string text = about_keywords(signatures, call);
  // A form with any number of arguments says by itself what they must be.
  if (std::any_of(signatures.begin(), signatures.end(),
                  [](const Signature& one) { return !one.is_variadic; }))
    std::erase_if(signatures, [](const Signature& one) { return one.is_variadic; });
  if (text.empty()) {
    std::optional<Complaint> most;
    for (const Signature& signature : signatures) {
      Complaint one = about(signature, call);
      if (!most || one.num_right > most->num_right)
        most = std::move(one);
      else if (one.num_right == most->num_right && one.text == most->text && !one.wanted.empty())
        most->wanted += " | " + one.wanted;
    }
    text = most->text + most->wanted + most->got;
  }
  const bool is_constructor = signatures.front().name == "__init__" && call.num_positional > 0;
  const char* const type = is_constructor ? call.type_of(0) : "";
  const char* const dot = std::strrchr(type, '.');
  const auto property = properties.find(function.ptr());
  const std::string name = property != properties.end() ? property->second
                           : is_constructor             ? (dot ? dot + 1 : type)
                                                        : signatures.front().name;
  return concat(name, ": ", text);
}

// Replaces nanobind's error, and leaves every other.
void explain(PyObject* function, PyObject* const* values, std::size_t count, PyObject* keywords) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const nb::object text = value ? nb::steal(PyObject_Str(value)) : nb::object();
  // An error with a traceback comes from Python code that the function has called.
  if (type == PyExc_TypeError && !traceback && text.is_valid() &&
      std::string_view(nb::str(text).c_str()).find("incompatible function arguments") !=
          std::string_view::npos) {
    Call call{values, count, {}};
    for (Py_ssize_t k = 0; keywords && k < PyTuple_GET_SIZE(keywords); ++k)
      call.keywords.push_back(nb::str(nb::borrow(PyTuple_GET_ITEM(keywords, k))).c_str());
    try {
      const std::string said = explanation(function, call);
      PyErr_SetString(PyExc_TypeError, said.c_str());
      Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(traceback);
      return;
    } catch (const std::exception&) {  // nanobind's own text then
    }
  }
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

// --- The pointers ---

// nanobind has a few functions there, for calls of different complexity.
std::array<vectorcallfunc, 8> originals{};

template <std::size_t k>
PyObject* explained(PyObject* function, PyObject* const* values, std::size_t count,
                    PyObject* keywords) {
  PyObject* const result = originals[k](function, values, count, keywords);
  if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) [[unlikely]]
    explain(function, values, count & 0xffff, keywords);  // the bits above are flags
  return result;
}

template <std::size_t... k>
constexpr std::array<vectorcallfunc, sizeof...(k)> all_explained(std::index_sequence<k...>) {
  return {explained<k>...};
}
constexpr auto kExplained = all_explained(std::make_index_sequence<8>());

void set_pointer(nb::handle function) {
  auto& pointer = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function.ptr()) +
                                                     Py_TYPE(function.ptr())->tp_vectorcall_offset);
  if (std::find(kExplained.begin(), kExplained.end(), pointer) != kExplained.end()) return;
  for (std::size_t k = 0; k < originals.size(); ++k)
    if (!originals[k] || originals[k] == pointer) {
      originals[k] = pointer;
      pointer = kExplained[k];
      return;
    }
}

}  // namespace

void explain_arguments(nb::handle scope) {
  for (const nb::handle member : nb::list(scope.attr("__dict__").attr("items")())) {
    const nb::object value = member[1];
    const std::string type = full_name(Py_TYPE(value.ptr()));
    if (type == "nanobind.nb_func" || type == "nanobind.nb_method")
      set_pointer(value);
    else if (Py_TYPE(value.ptr()) == &PyProperty_Type)
      for (const char* accessor : {"fget", "fset"}) {
        const nb::object function = value.attr(accessor);
        if (function.is_none()) continue;
        set_pointer(function);
        properties[function.ptr()] = nb::str(nb::handle(member[0])).c_str();
      }
    else if (PyModule_Check(value.ptr()) || nb::type_check(value))
      explain_arguments(value);
  }
}

}  // namespace ringrad::python
