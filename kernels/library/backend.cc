#include "ringrad/kernels/library/backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "ringrad/kernels/library/has_onednn.h"

#if RINGRAD_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

namespace ringrad {
namespace {

using kernels::Provided;

constexpr std::array<std::string_view, 4> kNames = {"matmul", "conv2d", "batch_norm", "attention"};

enum class Choice : std::uint8_t { automatic, native, vendor };
using Choices = std::array<std::atomic<Choice>, kNames.size()>;

// Bit k stands for operation k; "all" sets every bit.
unsigned operations_named(std::string_view name, Where where) {
  if (name == "all") return (1u << kNames.size()) - 1;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return 1u << i;
  throw ValueError(
      concat("kernel backend: the operation must be matmul, conv2d, batch_norm, attention or all; "
             "got \"",
             name, '"'),
      where);
}

Choice parse_choice(std::string_view text, Where where) {
  if (text == "native") return Choice::native;
  if (text == "vendor") return Choice::vendor;
  throw ValueError(
      concat(
          "RINGRAD_KERNELS: it must be native, vendor, or a list like matmul=native,conv2d=vendor; "
          "got \"",
          text, '"'),
      where);
}

// An invalid variable throws each time it is needed, so that nothing is chosen by guessing.
void read_environment(Choices& choices, Where where) {
  const char* variable = std::getenv("RINGRAD_KERNELS");
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const auto equals = item.find('=');
    const bool for_all = equals == std::string_view::npos;
    const unsigned operations = operations_named(for_all ? "all" : item.substr(0, equals), where);
    const Choice choice = parse_choice(for_all ? item : item.substr(equals + 1), where);
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (operations >> i & 1u) choices[i] = choice;
  }
}

Choices& choices(Where where) {
  static Choices* chosen = [where] {
    auto made = std::make_unique<Choices>();
    read_environment(*made, where);
    return made.release();
  }();
  return *chosen;
}

}  // namespace

void set_kernel_backend(std::string_view operation, KernelBackend backend, Where where) {
  const unsigned operations = operations_named(operation, where);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (!(operations >> i & 1u)) continue;
    if (backend == KernelBackend::vendor) {
      const std::string missing = kernels::vendor_missing(static_cast<Provided>(i));
      RINGRAD_CHECK(missing.empty(), ValueError, where,
                    "set_kernel_backend: the vendor's kernels for ", kNames[i],
                    " must be there; got ", missing);
    }
    choices(where)[i] = backend == KernelBackend::vendor ? Choice::vendor : Choice::native;
  }
}

std::string cpu_products() {
#if RINGRAD_ONEDNN
  const auto& version = *dnnl_version();
  return concat("oneDNN ", version.major, '.', version.minor, '.', version.patch);
#else
  return "own loops";
#endif
}

KernelBackend kernel_backend(std::string_view operation, Where where) {
  const unsigned operations = operations_named(operation, where);
  bool vendor = true;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (operations >> i & 1u) vendor &= kernels::uses_vendor(static_cast<Provided>(i), where);
  return vendor ? KernelBackend::vendor : KernelBackend::native;
}

bool kernels::uses_vendor(Provided operation, Where where) {
  const Choice choice = choices(where)[static_cast<std::size_t>(operation)];
  if (choice == Choice::native) return false;
  const bool there = vendor_missing(operation).empty();
  RINGRAD_CHECK(there || choice == Choice::automatic, ValueError, where,
                "RINGRAD_KERNELS: the vendor's kernels for ",
                kNames[static_cast<std::size_t>(operation)], " must be there; got ",
                vendor_missing(operation));
  return there;
}

bool kernels::may_use_vendor(Provided operation, bool is_shared) {
  return !is_shared || operation == Provided::matmul || operation == Provided::conv2d;
}

}  // namespace ringrad
