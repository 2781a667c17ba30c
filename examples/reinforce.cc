// REINFORCE: learns to balance a pole on a cart that can be pushed to the left or to the right.
//
//     increase  sum over steps t of (G_t - V(s_t)) log p(a_t | s_t)
//
// G_t is the number of steps, from t on, in which the pole stood. The baseline V is a second
// network, which learns to predict G_t. It makes the gradient less noisy and does not change its
// mean.
//
//     reinforce [--seed 1]    prints how long the pole stands, at most 300 steps
//
// Papers: Williams 1992, "Simple statistical gradient-following algorithms for connectionist
//         reinforcement learning"; Barto, Sutton, Anderson 1983, "Neuronlike adaptive elements that
//         can solve difficult learning control problems", for cart and pole

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

#include "ringrad/options.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kPoles = 16, kMostSteps = 300;

// Carts with poles, all pushed at the same time. States (B, 4) of float32: the cart's position in m
// and its velocity, the pole's angle in rad and its velocity.
struct CartPoles {
  Tensor states = uniform(-0.05, 0.05, {kPoles, 4});

  // Pushes each cart by 10 N to the right (1) or to the left (0) for 0.02 s.
  void push(const Tensor& actions) {
    constexpr double kGravity = 9.8, kPole = 0.1, kTotal = 1.1, kHalfLength = 0.5, kSeconds = 0.02;
    const std::vector<Tensor> s = split(states, 1, 1);
    const Tensor sine = sin(s[2]), cosine = cos(s[2]);
    const Tensor force = unsqueeze(20 * to(actions, DType::float32) - 10, 1);
    const Tensor push = (force + kPole * kHalfLength * square(s[3]) * sine) / kTotal;
    const Tensor turn = (kGravity * sine - cosine * push) /
                        (kHalfLength * (4. / 3 - kPole / kTotal * square(cosine)));
    const Tensor move = push - kPole * kHalfLength / kTotal * turn * cosine;
    states += kSeconds * concatenate({s[1], move, s[3], turn}, 1);
  }
  // False (B) for poles that have fallen and carts that have left the track.
  Tensor standing() const {
    return logical_and(abs(states[{Slice(), 0}]) < 2.4, abs(states[{Slice(), 2}]) < M_PI / 15);
  }
};

// What happened in T steps of B poles: states (T, B, 4), actions (T, B), and which poles had stood
// until then, (T, B) of 0 and 1.
struct Episodes {
  Tensor states, actions, stood;
  double mean_length() const { return sum(stood).item() / kPoles; }
};

Episodes play(nn::Module& policy) {
  const NoGradGuard no_grad;
  CartPoles poles;
  std::vector<Tensor> states, actions, stood;
  Tensor standing = ones({kPoles});
  for (std::int64_t t = 0; t < kMostSteps && any(standing).item<bool>(); ++t) {
    states.push_back(clone(poles.states));
    stood.push_back(standing);
    // The largest of logits + Gumbel noise, -log of waiting times, is a draw from their softmax.
    Tensor waiting = empty({kPoles, 2});
    exponential_(waiting);
    actions.push_back(argmax(policy(poles.states) - log(waiting), 1));
    poles.push(actions.back());
    standing = standing * to(poles.standing(), DType::float32);
  }
  return {stack(states), stack(actions), stack(stood)};
}

nn::Sequential network(std::int64_t outputs) {
  return nn::Sequential(nn::Linear(4, 32), nn::Tanh(), nn::Linear(32, outputs));
}

void train(std::uint64_t seed) {
  manual_seed(seed);
  nn::Sequential policy = network(2), baseline = network(1);
  nn::Adam policy_optimizer(policy.parameters(), {.learning_rate = 0.01});
  nn::Adam baseline_optimizer(baseline.parameters(), {.learning_rate = 0.01});
  const double before = play(policy).mean_length();
  for (int iteration = 1; iteration <= 100; ++iteration) {
    const Episodes episodes = play(policy);
    const Tensor& stood = episodes.stood;
    // As parts of the most steps; numbers up to 1 suit V.
    const Tensor returns = (sum(stood, {0}) - unsqueeze(arange(stood.size(0)), 1)) / kMostSteps;
    const Tensor values = squeeze(baseline(episodes.states), {2});
    const Tensor log_probabilities = squeeze(
        gather(log_softmax(policy(episodes.states), 2), 2, unsqueeze(episodes.actions, 2)), {2});
    const Tensor policy_loss =
        -sum(stood * (returns - values.detach()) * log_probabilities) / sum(stood);
    const Tensor baseline_loss = sum(stood * square(returns - values)) / sum(stood);
    policy_optimizer.zero_grad();
    baseline_optimizer.zero_grad();
    (policy_loss + baseline_loss).backward();
    policy_optimizer.step();
    baseline_optimizer.step();
    if (iteration % 10 == 0)
      std::cout << "iteration " << iteration << ", mean length " << episodes.mean_length()
                << std::endl;
  }
  std::cout << "mean length " << before << " before, " << play(policy).mean_length() << " after\n";
}

int main(int argc, char** argv) {
  std::uint64_t seed = 0;
  CLI::App options("Learns to balance a pole on a cart.");
  options.option_defaults()->always_capture_default();
  options.add_option("--seed", seed)->check(option::seed());
  if (const auto exit_code = parse_options(options, argc, argv)) return *exit_code;
  train(seed);
}
