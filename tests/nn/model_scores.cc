// model_scores MODEL IN OUT: loads a state dict and "input" from the safetensors file IN, and
// writes the model's state dict and "scores" to OUT. tests/golden/compare_models.py compares with
// PyTorch.

#include <cstdio>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/nn/checkpoint/tensor_file.h"
#include "ringrad/nn/models/models.h"

int main(int argc, char** argv) try {
  using namespace ringrad;
  if (argc != 4) throw ValueError("usage: model_scores MODEL IN OUT", Where::current());
  nn::StateDict state = nn::read_safetensors(argv[2]);
  const Tensor input = state.extract("input").mapped();
  nn::Sequential net =
      nn::make_model(argv[1], {.channels = 3, .height = 224, .width = 224, .classes = 1000});
  net.load_state_dict(state);
  net.eval();
  const NoGradGuard no_grad;
  nn::StateDict result = net.state_dict();
  result["scores"] = net(input);
  nn::write_tensors(argv[3], result);
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
