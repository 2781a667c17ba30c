// A variational autoencoder: learns what images look like, and draws new ones. An encoder turns an
// image x into a distribution of codes z, and a decoder turns a code into the probabilities of
// white pixels. Both increase a lower bound of log p(x), the ELBO:
//
//     ELBO = E_q [log p(x | z)] - KL(q || N(0, 1)),    q = N(mean(x), deviation(x))
//     z = mean + deviation * noise                      so that gradients pass through the draw
//
//     vae [--picture samples.pgm]    prints the ELBO of new images; draws 64 of its own
//
// Paper: Kingma and Welling 2013, arXiv:1312.6114

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <locale>

#include "ringrad/options.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kSide = 16, kPixels = kSide * kSide, kCode = 6, kHidden = 256;

// White ellipses on black: images (B, 256) of 0 and 1 that four numbers describe.
Tensor ellipses(std::int64_t count) {
  const Shape one_per_image{count, 1, 1};
  const Tensor row = reshape(arange(kSide), {kSide, 1}), column = arange(kSide);
  const Tensor down = (row - uniform(5, 10, one_per_image)) / uniform(2, 5, one_per_image),
               right = (column - uniform(5, 10, one_per_image)) / uniform(2, 5, one_per_image);
  return flatten(to(square(down) + square(right) < 1, DType::float32), 1);
}

struct VariationalAutoencoder : nn::Module {
  // The mean over images of the estimate of the ELBO by one draw of z, in nats.
  Tensor elbo(const Tensor& x) {
    const std::vector<Tensor> halves = chunk(encoder(x), 2, 1);
    const Tensor &mean = halves[0], &log_variance = halves[1];
    const Tensor z = mean + exp(log_variance / 2) * randn_like(mean);
    const Tensor log_likelihood = -bce_with_logits(decoder(z), x, {}, Reduction::sum);
    const Tensor divergence = sum(square(mean) + exp(log_variance) - log_variance - 1) / 2;
    return (log_likelihood - divergence) / x.size(0);
  }
  nn::Sequential& encoder =
      child("encoder",
            nn::Sequential(nn::Linear(kPixels, kHidden), nn::ReLU(), nn::Linear(kHidden, kHidden),
                           nn::ReLU(), nn::Linear(kHidden, 2 * kCode)));
  nn::Sequential& decoder =
      child("decoder",
            nn::Sequential(nn::Linear(kCode, kHidden), nn::ReLU(), nn::Linear(kHidden, kHidden),
                           nn::ReLU(), nn::Linear(kHidden, kPixels)));
};

// Images (64, 256) in eight rows, as a PGM file.
void write_picture(const std::string& file, const Tensor& images) {
  const Tensor rows = permute(reshape(images, {8, 8, kSide, kSide}), {0, 2, 1, 3});
  const auto grey = to(round(rows * 255), DType::uint8).to_vector<std::uint8_t>();
  std::ofstream out(file, std::ios::binary);
  out.imbue(std::locale::classic());
  out << "P5 " << 8 * kSide << ' ' << 8 * kSide << " 255\n";
  out.write(reinterpret_cast<const char*>(grey.data()), std::ssize(grey));
  RINGRAD_CHECK(out.flush(), DataError, Where::current(), "vae: cannot write ", file);
}

int main(int argc, char** argv) try {
  std::int64_t num_steps = 2000;
  std::string picture = "samples.pgm";
  CLI::App options("Learns what ellipses look like, and draws some.");
  options.option_defaults()->always_capture_default();
  options.add_option("--steps", num_steps, "steps of training")->check(option::steps());
  options.add_option("--picture", picture, "the file of 64 samples");
  if (const auto exit_code = parse_options(options, argc, argv)) return *exit_code;

  VariationalAutoencoder model;
  const Tensor test = ellipses(1000);
  const auto test_elbo = [&] {
    const NoGradGuard no_grad;
    return model.elbo(test).item();
  };
  const double before = test_elbo();
  nn::Adam optimizer(model.parameters());
  const nn::Schedule schedule = nn::cosine(2e-3, num_steps);
  for (std::int64_t step = 0; step < num_steps; ++step) {
    optimizer.set_learning_rate(schedule(step));
    optimizer.zero_grad();
    const Tensor loss = -model.elbo(ellipses(64));
    loss.backward();
    optimizer.step();
    if (step % 400 == 399)
      std::cout << "step " << step + 1 << ", test ELBO " << test_elbo() << std::endl;
  }
  const NoGradGuard no_grad;
  write_picture(picture, sigmoid(model.decoder(randn({64, kCode}))));
  std::cout << "test ELBO " << before << " before, " << test_elbo() << " after; samples are in "
            << picture << '\n';
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
