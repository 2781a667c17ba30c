// Our side of the comparison: training steps. peers/torch_step.cc has the same for libtorch.

#include "ringrad/benchmarks/cases.h"
#include "ringrad/benchmarks/training_tasks.h"

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  std::vector<Case> cases;
  for (const TrainingTask& task : training_tasks())
    cases.push_back(step_case(task.name + "/B:" + std::to_string(task.batch()), task.batch(),
                              [task] { return task.build(); }));
  return run_cases(argc, argv, "ringrad", cases);
}
