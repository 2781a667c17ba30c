// How cuDNN treats our graphs, without a GPU: it gets a description of a GPU instead, checks each
// graph, and proposes and builds the engines that would run it. A graph that cuDNN refuses is thus
// found on any machine with the library; the operators' tests on a GPU show that the results are
// right.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ringrad/kernels/library/attention_cudnn.h"
#include "ringrad/kernels/library/batch_norm_cudnn.h"
#include "ringrad/kernels/library/convolution_cudnn.h"

namespace ringrad::kernels::cudnn {
namespace {

namespace fe = cudnn_frontend;

// The facts of cudaGetDeviceProperties(), in the terms of cuDNN's descriptions.
nlohmann::json h100() {
  return {{"deviceName", "NVIDIA H100 80GB HBM3"},
          {"cudaDeviceId", 0},
          {"deviceVer", 900},
          {"driverVer", 13000},
          {"multiProcessorCount", 132},
          {"maxGridSize", {2147483647, 65535, 65535}},
          {"maxBlockSize", {1024, 1024, 64}},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", 2048},
          {"maxCtasPerSM", 32},
          {"warpSize", 32},
          {"regsPerBlock", 65536},
          {"maxRegistersPerSM", 65536},
          {"maxSharedMemoryPerBlock", 49152},
          {"maxSharedMemoryPerBlockOptin", 232448},
          {"reservedSharedMemoryPerBlock", 1024},
          {"l2CacheSize", 52428800},
          {"totalGlobalMem", 85'000'000'000},
          {"smClockRateKHz", 1980000},
          {"memClockRateKHz", 2619000},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"supportCoopLaunch", 1}};
}

nlohmann::json a100() {
  nlohmann::json gpu = h100();
  gpu.update({{"deviceName", "NVIDIA A100-SXM4-80GB"},
              {"deviceVer", 800},
              {"multiProcessorCount", 108},
              {"maxSharedMemoryPerBlockOptin", 166912},
              {"l2CacheSize", 41943040},
              {"smClockRateKHz", 1410000},
              {"memClockRateKHz", 1593000}});
  return gpu;
}

class CudnnEnginesTest : public ::testing::TestWithParam<nlohmann::json> {
 protected:
  void SetUp() override {
    if (!missing().empty()) GTEST_SKIP() << missing();
    const std::string text = GetParam().dump();
    auto described = std::make_shared<fe::DeviceProperties>();
    fe::error_t error = described->deserialize({text.begin(), text.end()});
    ASSERT_TRUE(error.is_good()) << error.get_message();
    gpu_ = described;
  }

  std::vector<std::int64_t> propose_engines(Graph& graph, DType dtype, Search search) {
    graph.set_device_properties(gpu_);
    std::vector<std::int64_t> found;
    fe::error_t error = propose(graph, nullptr, dtype, search, found);
    EXPECT_TRUE(error.is_good()) << error.get_message();
    return found;
  }

  // Building always fails without a GPU; a deselected engine fails with a message that says so.
  static bool any_was_kept(Graph& graph) {
    for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
      fe::error_t error = graph.build_plan_at_index(i);
      if (error.get_message().find("Deselecting") == std::string::npos) return true;
    }
    return false;
  }

  std::vector<std::int64_t> engines(Graph& graph, DType dtype, Search search) {
    const auto found = propose_engines(graph, dtype, search);
    EXPECT_GT(found.size(), 0u);
    EXPECT_LE(found.size(), static_cast<std::size_t>(search.candidates));
    return found;
  }

 private:
  std::shared_ptr<const fe::DeviceProperties> gpu_;
};

struct Case {
  const char* name;
  ConvolutionGeometry g;
};

std::vector<Case> convolutions() {
  // Squares or, with Conv3dOptions, cubes.
  const auto make = [](std::int64_t B, std::int64_t C, std::int64_t H, std::int64_t K,
                       std::int64_t R, const auto& o) {
    const std::int64_t P = (H + 2 * o.padding[0] - o.dilation[0] * (R - 1) - 1) / o.stride[0] + 1;
    const bool cube = o.stride.size() == 3;
    return ConvolutionGeometry{B, C, cube ? H : 1, H, H, K, cube ? P : 1,
                               P, P, cube ? R : 1, R, R, o};
  };
  using Square = Conv2dOptions;
  using Cube = Conv3dOptions;
  return {
      {"3x3", make(32, 64, 56, 64, 3, Square{.padding = {1, 1}})},
      {"1x1", make(32, 256, 14, 1024, 1, Square{})},
      {"1x1, stride 2", make(32, 256, 56, 512, 1, Square{.stride = {2, 2}})},
      {"3x3, stride 2", make(32, 128, 56, 128, 3, Square{.stride = {2, 2}, .padding = {1, 1}})},
      {"7x7, stride 2, of images",
       make(32, 3, 224, 64, 7, Square{.stride = {2, 2}, .padding = {3, 3}})},
      {"of grey images", make(16, 1, 28, 32, 3, Square{.padding = {1, 1}})},
      {"odd extents", make(3, 5, 11, 7, 3, Square{.padding = {1, 1}})},
      {"dilated", make(8, 64, 28, 64, 3, Square{.padding = {2, 2}, .dilation = {2, 2}})},
      {"in groups", make(8, 64, 28, 64, 3, Square{.padding = {1, 1}, .groups = 4})},
      {"3x3x3", make(4, 32, 16, 32, 3, Cube{.padding = {1, 1, 1}})},
      {"3x3x3, stride 2", make(4, 3, 17, 32, 3, Cube{.stride = {2, 2, 2}, .padding = {1, 1, 1}})}};
}

TEST_P(CudnnEnginesTest, AreFoundForEveryConvolution) {
  for (const auto& [name, g] : convolutions())
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      SCOPED_TRACE(testing::Message() << name << ' ' << ringrad::name(dtype));
      for (Graph graph : {convolution_graph(g, dtype, false), convolution_graph(g, dtype, true),
                          backward_input_graph(g, dtype), backward_weight_graph(g, dtype)})
        engines(graph, dtype, {.candidates = 1});
    }
}

TEST_P(CudnnEnginesTest, AreFoundAgainByName) {
  const ConvolutionGeometry g = convolutions().front().g;
  const auto make = [&] { return convolution_graph(g, DType::bfloat16, true); };
  Graph first = make();
  const auto found = engines(first, DType::bfloat16, {.candidates = 3});
  ASSERT_GT(found.size(), 1u);
  for (const std::int64_t engine : found) {
    std::string name;
    ASSERT_TRUE(first.get_plan_name_at_index(engine, name).is_good());
    Graph again = make();
    EXPECT_EQ(propose_engines(again, DType::bfloat16, {.candidates = 3, .name = name}),
              std::vector{engine})
        << name;
  }
  Graph unknown = make();
  EXPECT_TRUE(propose_engines(unknown, DType::bfloat16, {.name = "eng99_k1=2"}).empty());
}

TEST_P(CudnnEnginesTest, RoundInputsOnlyWhenTold) {
  const ConvolutionGeometry g = convolutions().front().g;
  const auto number = [&](bool tf32) {
    Graph graph = convolution_graph(g, DType::float32, true);
    return engines(graph, DType::float32, {.candidates = 1000, .tf32 = tf32}).size();
  };
  EXPECT_LT(number(false), number(true));
}

// Without a driver, loads the toolkit's stub: some engines are compiled for the GPU in the machine,
// and cuDNN proposes them only if a driver library is loaded.
void load_driver() {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
    ASSERT_TRUE(dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL))
        << dlerror();
  }
}

// Without a GPU, cuDNN proposes these engines but does not build them.
TEST_P(CudnnEnginesTest, AreProposedForEveryBatchNorm) {
  load_driver();
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16})
    for (const bool relu : {false, true})
      for (const bool residual : {false, true}) {
        if (residual && !relu) continue;  // cuDNN has no such engine: our own passes do it
        SCOPED_TRACE(testing::Message() << ringrad::name(dtype) << (relu ? " relu" : "")
                                        << (residual ? " residual" : ""));
        const BatchNormKind forward{{32, 64, 56, 56}, dtype, relu, residual, 1e-5};
        BatchNormKind backward = forward;
        backward.residual |= relu && dtype != DType::float32;
        for (Graph graph : {batch_norm_graph(forward), batch_norm_backward_graph(backward)}) {
          propose_engines(graph, dtype, {.candidates = 0});
          EXPECT_TRUE(any_was_kept(graph));
        }
      }
}

// Heads share keys, lengths are no multiples of a tile, and sizes of heads differ.
AttentionForward attention_call(DType dtype, std::int64_t D, std::int64_t Dv, bool causal) {
  const std::int64_t B = 2, H = 8, Hkv = 2, T = 200, S = 200;
  const Options options{.dtype = dtype};
  return {.a = {B, H, Hkv, T, S, D, Dv, 0.125, causal, 0, 0},
          .q = empty({B, H, T, D}, options),
          .k = empty({B, Hkv, S, D}, options),
          .v = empty({B, Hkv, S, Dv}, options),
          .mask = {},
          .dropout = {},
          .output = empty({B, H, T, Dv}, options),
          .statistics = empty({B, H, T})};
}

TEST_P(CudnnEnginesTest, AreProposedForAttention) {
  load_driver();
  const int architecture = GetParam()["deviceVer"].get<int>() / 10;
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const bool causal : {false, true}) {
      const std::int64_t D = causal ? 64 : 40, Dv = causal ? 64 : 72;
      SCOPED_TRACE(testing::Message() << ringrad::name(dtype) << ' ' << D << ' ' << Dv);
      const AttentionForward forward = attention_call(dtype, D, Dv, causal);
      const AttentionBackward backward{.a = forward.a,
                                       .grad_output = forward.output,
                                       .q = forward.q,
                                       .k = forward.k,
                                       .v = forward.v,
                                       .mask = {},
                                       .dropout = {},
                                       .output = forward.output,
                                       .statistics = forward.statistics,
                                       .grad_q = forward.q,
                                       .grad_k = forward.k,
                                       .grad_v = forward.v};
      for (Graph graph : {attention_graph(forward, architecture),
                          attention_backward_graph(backward, architecture)}) {
        propose_engines(graph, dtype, {.candidates = 0});
        EXPECT_TRUE(any_was_kept(graph));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Described, CudnnEnginesTest, ::testing::Values(h100(), a100()),
                         [](const auto& gpu) { return gpu.index == 0 ? "H100" : "A100"; });

}  // namespace
}  // namespace ringrad::kernels::cudnn
