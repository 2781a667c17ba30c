// Writes and reads checkpoints for checkpoint_file_test.py, which inspects them and kills this
// program.
//
//     checkpoint_writer write PATH                     a tensor of each dtype: 0, 1, ... or 1 0 1 0
//     checkpoint_writer loop PATH FIRST COUNT NUMEL    a tensor full of FIRST, then of FIRST + 1,
//                                                      ...; prints each number once it is saved
//     checkpoint_writer read PATH                      prints the number, if there is only one

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"
#include "ringrad/nn/checkpoint/checkpoint.h"
#include "ringrad/nn/checkpoint/tensor_file.h"

namespace ringrad {
namespace {

void write(const std::string& path) {
  nn::StateDict tensors;
  for (int d = 0; d < kNumDTypes; ++d) {
    const Tensor x = empty({2, 3}, {.dtype = static_cast<DType>(d)});
    dispatch_dtype(x.dtype(), [&]<class T>() {
      for (int i = 0; i < 6; ++i)
        if constexpr (std::is_same_v<T, bool>)
          x.data<T>()[i] = i % 2 == 0;
        else
          x.data<T>()[i] = Scalar(i).to<T>();
    });
    tensors.emplace(concat("some.", name(x.dtype())), x);
  }
  tensors.emplace("none", empty({0, 7}));
  tensors.emplace("number", scalar_tensor(2.5, {.dtype = DType::float64}));
  nn::write_tensors(path, tensors);
}

// The number and the tensor must come from one save.
struct State {
  explicit State(std::int64_t numel) : x(zeros({numel})) {
    checkpoint.add("number", number);
    checkpoint.add("x", x);
  }

  std::int64_t number = 0;
  Tensor x;
  nn::Checkpoint checkpoint;
};

void loop(const std::string& path, std::int64_t first, std::int64_t count, std::int64_t numel) {
  State state(numel);
  for (state.number = first; state.number < first + count; ++state.number) {
    std::fill_n(state.x.data<float>(), numel, static_cast<float>(state.number));
    state.checkpoint.save(path);
    std::cout << state.number << std::endl;
  }
}

void read(const std::string& path) {
  State state(nn::read_tensors(path).at("x").numel());
  state.checkpoint.load(path);
  const auto values = state.x.to_vector<std::int64_t>();
  const bool same = std::all_of(values.begin(), values.end(),
                                [&](std::int64_t value) { return value == state.number; });
  std::cout << (same ? std::to_string(state.number) : "mixed") << std::endl;
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 2 && arguments[0] == "write")
      ringrad::write(arguments[1]);
    else if (arguments.size() == 2 && arguments[0] == "read")
      ringrad::read(arguments[1]);
    else if (arguments.size() == 5 && arguments[0] == "loop")
      ringrad::loop(arguments[1], std::stol(arguments[2]), std::stol(arguments[3]),
                    std::stol(arguments[4]));
    else
      return 2;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
