// A network and data of one's own: trained, saved in net.safetensors, and loaded again.

#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

struct Net : nn::Module {
  nn::Linear& hidden = child("hidden", nn::Linear(2, 64));  // a child's parameters are the net's
  nn::Linear& output = child("output", nn::Linear(64, 2));
  Tensor forward(const Tensor& x, Where) override { return output(relu(hidden(x))); }
};

int main() {
  const Tensor points = randn({1024, 2}), is_inside = sum(square(points), 1) < 1;
  const TensorDataset data({points, to(is_inside, DType::int64)});  // is a point in the circle?
  RandomSampler order(data.size());
  DataLoader loader(data, order, {.batch_size = 32});

  Net net;
  nn::Adam optimizer(net.parameters(), {.learning_rate = 0.01});
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      cross_entropy(net(batch.input()), batch.target()).backward();
      optimizer.step();
    }
  nn::write_tensors("net.safetensors", net.state_dict());

  Net loaded;
  loaded.load_state_dict(nn::read_safetensors("net.safetensors"));
  const NoGradGuard no_grad;  // nothing is recorded for backward
  const Tensor is_right = argmax(loaded(points), 1) == data.tensors()[1];
  std::cout << "training accuracy " << mean(to(is_right, DType::float32)).item() << '\n';
}
