// Trains a network, saves its body, and loads that into another network. There it is frozen: only
// the new head learns, from a few samples that are not enough to train the whole network.
//
//     fine_tune [FILE]    the file between the two; default body.safetensors

#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

struct Net : nn::Module {
  explicit Net(std::int64_t num_classes) : head(child("head", nn::Linear(64, num_classes))) {}
  Tensor forward(const Tensor& x, Where at) override { return head(body(x, at), at); }
  nn::Sequential& body =
      child("body", nn::Sequential(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU()));
  nn::Linear& head;
};

TensorDataset three_arms(std::int64_t num_samples, std::uint64_t seed) {
  return spirals(num_samples, 3, 0.02, seed, /*turns=*/1.25);
}

// Another task on the same points: does a point belong to the first arm?
TensorDataset is_first_arm(std::int64_t num_samples, std::uint64_t seed) {
  const std::vector<Tensor> points = three_arms(num_samples, seed).tensors();
  return TensorDataset({points[0], to(points[1] == 0, DType::int64)});
}

// Trains these of the network's parameters; returns the accuracy on the test set.
double train(Net& net, const std::vector<Tensor>& parameters, const TensorDataset& data,
             const TensorDataset& test) {
  nn::Adam optimizer(parameters, {.learning_rate = 0.01});
  for (int step = 0; step < 300; ++step) {
    optimizer.zero_grad();
    cross_entropy(net(data.tensors()[0]), data.tensors()[1]).backward();
    optimizer.step();
  }
  return mean(to(argmax(net(test.tensors()[0]), 1) == test.tensors()[1], DType::float32)).item();
}

int main(int argc, char** argv) try {
  const std::string file = argc > 1 ? argv[1] : "body.safetensors";
  const auto show = [](const char* what, double accuracy) {
    std::cout << what << accuracy << '\n';
  };
  Net teacher(3);
  show("three arms, 1500 samples:              ",
       train(teacher, teacher.parameters(), three_arms(1500, 0), three_arms(600, 1)));
  nn::write_tensors(file, teacher.body.state_dict());

  const TensorDataset few = is_first_arm(24, 2), test = is_first_arm(600, 1);
  Net alone(2), tuned(2);
  show("first arm, 24 samples, from scratch:   ", train(alone, alone.parameters(), few, test));
  tuned.body.load_state_dict(nn::read_tensors(file));
  for (const Tensor& parameter : tuned.body.parameters()) parameter.set_requires_grad(false);
  show("first arm, 24 samples, body as loaded: ", train(tuned, tuned.head.parameters(), few, test));
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
