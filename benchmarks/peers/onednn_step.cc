// Peer: the training steps of the comparison on oneDNN alone (see onednn_net.h).
//
// Convolutions are direct, as in libtorch's training; the variant @auto lets oneDNN choose (it uses
// Winograd's algorithm where it expects that to be faster).

#include "ringrad/benchmarks/cases.h"
#include "ringrad/benchmarks/peers/onednn_net.h"

namespace ringrad::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using dnnl::algorithm;

void build_mlp(Net& net) {
  Net::Value x = net.input({128, 784}, Tag::ab);
  x = net.linear(x, 512, true);
  x = net.linear(x, 512, true);
  net.cross_entropy(net.linear(x, 10, false));
}

void build_convnet(Net& net) {
  Net::Value x = net.input({128, 1, 28, 28}, Tag::nchw);
  for (int64_t outputs : {32, 64}) {
    x = net.batch_norm(net.conv(x, outputs, 3, 1, true), true);
    x = net.pool(x, 2, algorithm::pooling_max);
  }
  x = net.linear(net.flatten(x), 128, true);
  net.cross_entropy(net.linear(x, 10, false));
}

void build_resnet20(Net& net) {
  Net::Value x = net.input({64, 3, 32, 32}, Tag::nchw);
  x = net.batch_norm(net.conv(x, 16, 3, 1, false), true);
  int64_t in = 16;
  for (int64_t out : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const int64_t stride = in == out ? 1 : 2;
      Net::Value body = net.batch_norm(net.conv(x, out, 3, stride, false), true);
      body = net.batch_norm(net.conv(body, out, 3, 1, false), false);
      const Net::Value shortcut =
          in == out ? x : net.batch_norm(net.conv(x, out, 1, stride, false), false);
      x = net.add_relu(body, shortcut);
      in = out;
    }
  }
  x = net.flatten(net.pool(x, 8, algorithm::pooling_avg_exclude_padding));
  net.cross_entropy(net.linear(x, 10, false));
}

Case onednn_case(const std::string& name, int batch, void (*build)(Net&)) {
  return step_case(name, batch, [=]() -> std::function<float()> {
    const auto net = std::make_shared<Net>();
    build(*net);
    return [net] { return net->step(); };
  });
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad::bench;
  return run_cases(
      argc, argv, "onednn",
      {onednn_case("mlp/B:128", 128, build_mlp), onednn_case("convnet/B:128", 128, build_convnet),
       onednn_case("resnet20/B:64", 64, build_resnet20)});
}
