// Runs of pipelines in JSON, and their pictures: what `tools/draw pipeline --measured run.json`
// does.

#include <stdexcept>

#include "ringrad/parallel/plan/draw/draw_pipeline.h"
#include "ringrad/parallel/plan/file/pipeline_json.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  PipelineRun run;
  const auto read = [&] { run = pipeline_run_from_json(fuzz::text_of(data, size)); };
  if (!fuzz::takes<std::invalid_argument>(read)) return 0;
  const std::string text = to_json(run);
  fuzz::must(to_json(pipeline_run_from_json(text)) == text, "comes back as it was");
  fuzz::takes<std::invalid_argument>([&] {
    pipeline_svg(run.plan, pipeline_times(run.plan, mean_costs(run.plan, run.times)), &run.times);
  });
  return 0;
}
