// Modules to run on several devices.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/train/data_parallel/data_parallel.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

inline nn::Sequential make_net() {
  return nn::Sequential(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 16), nn::Tanh(),
                        nn::Linear(16, 3));
}

/// The first n devices of the kind under test, repeated if there are fewer.
inline std::vector<Device> devices(int n) {
  const DeviceType type = default_device().type;
  std::vector<Device> result;
  for (int k = 0; k < n; ++k)
    result.emplace_back(type, type == DeviceType::cuda ? k % num_cuda_devices() : k);
  return result;
}

inline Tensor batch_of(std::int64_t rows) {
  Generator generator(static_cast<std::uint64_t>(rows));
  return randn({rows, 6}, {}, generator);
}

/// Two modules with the same values.
template <class Make>
auto twins(Make make) {
  auto pair = std::pair(make(), make());
  pair.second.load_state_dict(pair.first.state_dict());
  return pair;
}

inline void expect_close_gradients(const nn::Module& a, const nn::Module& b, double slack = 16) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    expect_close(a.parameters()[i].grad(), b.parameters()[i].grad(), slack);
}

/// Its forward() does what a test specifies; `replica` is the index of its device.
struct Told : nn::Module {
  using Function = std::function<Tensor(const Tensor& x, const Tensor& weight, int replica)>;
  explicit Told(Function function, int replica = 0)
      : function(std::move(function)), replica(replica) {}
  Tensor forward(const Tensor& x, Where) override { return function(x, weight, replica); }

  Tensor weight = parameter("weight", ones({6}));
  Function function;
  int replica;
};

/// Such a module and its DataParallel, on n devices.
struct ToldParallel {
  ToldParallel(int n, const Told::Function& function)
      : net(function),
        parallel(
            net, [function, k = 0]() mutable { return Told(function, k++); }, devices(n)) {}
  Told net;
  DataParallel parallel;
};

}  // namespace ringrad::testing
