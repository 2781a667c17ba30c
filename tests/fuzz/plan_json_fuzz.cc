// Collective plans in JSON, and their pictures: what `tools/draw plan.json` does.

#include <stdexcept>

#include "ringrad/parallel/plan/draw/draw_collective.h"
#include "ringrad/parallel/plan/file/plan_json.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  CollectivePlan plan;
  const auto read = [&] { plan = collective_plan_from_json(fuzz::text_of(data, size)); };
  if (!fuzz::takes<std::invalid_argument>(read)) return 0;
  fuzz::must(collective_plan_from_json(to_json(plan)) == plan, "comes back as it was");
  fuzz::takes<std::invalid_argument>([&] { collective_html(plan); });
  fuzz::takes<std::invalid_argument>([&] { collective_svg(plan); });
  return 0;
}
