// Learns the tastes of users and the traits of items from some ratings, and predicts other ratings:
//
//     rating(u, i) = 3 + bias(u) + bias(i) + taste(u) . traits(i) + noise
//
// The data are made by this formula, so the deviation of the noise is the least error possible.
//
//     matrix_factorisation    prints the error on ratings that it has not seen
//
// Paper: Koren, Bell, Volinsky 2009, "Matrix factorization techniques for recommender systems"

#include <cmath>
#include <iostream>

#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kUsers = 600, kItems = 400, kRank = 4;
constexpr double kNoise = 0.3;

struct Factors : nn::Module {
  // Numbers of the given deviation.
  Factors(std::int64_t rank, double deviation)
      : user_biases(parameter("user_biases", normal(0, deviation, {kUsers}))),
        item_biases(parameter("item_biases", normal(0, deviation, {kItems}))),
        tastes(parameter("tastes", normal(0, deviation, {kUsers, rank}))),
        traits(parameter("traits", normal(0, deviation, {kItems, rank}))) {}

  // The rating by users[k] of items[k], without noise.
  Tensor ratings(const Tensor& users, const Tensor& items) const {
    return 3 + index_select(user_biases, 0, users) + index_select(item_biases, 0, items) +
           sum(embedding(tastes, users) * embedding(traits, items), 1);
  }

  Tensor user_biases, item_biases, tastes, traits;
};

// Ratings of random pairs, as {users, items, ratings}.
TensorDataset rate(const Factors& truth, std::int64_t count) {
  const NoGradGuard no_grad;
  const Tensor users = randint(0, kUsers, {count}), items = randint(0, kItems, {count});
  return TensorDataset({users, items, truth.ratings(users, items) + normal(0, kNoise, {count})});
}

double root_mean_square_error(const Factors& model, const TensorDataset& data) {
  const NoGradGuard no_grad;
  const std::vector<Tensor>& columns = data.tensors();
  return std::sqrt(mse_loss(model.ratings(columns[0], columns[1]), columns[2]).item());
}

int main() {
  const Factors truth(kRank, 0.7);
  const TensorDataset data = rate(truth, 60'000), test = rate(truth, 10'000);

  // The model has more factors than the truth. Decay keeps those small that it does not need.
  Factors model(2 * kRank, 0.1);
  nn::Adam optimizer({{.parameters = {model.user_biases, model.item_biases}},
                      {.parameters = {model.tastes, model.traits}, .weight_decay = 1e-4}});
  RandomSampler sampler(data.size());
  DataLoader loader(data, sampler, {.batch_size = 1000});
  constexpr int kEpochs = 20;
  const nn::Schedule schedule = nn::cosine(0.02, kEpochs);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    optimizer.set_learning_rate(schedule(epoch));
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      mse_loss(model.ratings(batch.tensors[0], batch.tensors[1]), batch.tensors[2]).backward();
      optimizer.step();
    }
    if (epoch % 5 == 4)
      std::cout << "epoch " << epoch + 1 << ", test RMSE " << root_mean_square_error(model, test)
                << std::endl;
  }
  std::cout << "test RMSE " << root_mean_square_error(model, test) << ", noise " << kNoise << '\n';
}
