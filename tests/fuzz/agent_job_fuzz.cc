// The job that a launcher sends to an agent.

#include "ringrad/parallel/comm/job/agent.h"
#include "ringrad/tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringrad;
  fuzz::takes<Error>([&] {
    const AgentJob job = AgentJob::parse(fuzz::text_of(data, size), Where::current());
    fuzz::must(AgentJob::parse(job.text(), Where::current()) == job,
               "a job arrives as it was sent");
  });
  return 0;
}
