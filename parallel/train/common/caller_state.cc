#include "ringrad/parallel/train/common/caller_state.h"

#include <cstdint>

namespace ringrad {

Generator generator_of_part(const Generator& caller, int k) {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: seeds far apart
  Generator generator(caller.seed() ^ static_cast<std::uint64_t>(k) * kGolden);
  generator.set_offset(caller.offset());
  return generator;
}

CallerState::CallerState() {
  for (int i = 0; i < num_cuda_devices(); ++i) {
    const Stream stream = current_stream(Device(DeviceType::cuda, i));
    if (stream.handle()) streams_.push_back(stream);
  }
}

AsCaller::AsCaller(const CallerState& caller, int k, Device device)
    : device_(device), mode_(caller.records_), autocast_(caller.autocast_) {
  for (const Stream& stream : caller.streams_) streams_.emplace_front(stream);
  default_generator() = generator_of_part(caller.generator_, k);
  detail::draw_watch = caller.draw_watch_;
  detail::quiet_time = caller.quiet_time_;
}

AsCaller::~AsCaller() {
  default_generator() = own_generator_;
  detail::draw_watch = own_draw_watch_;
  detail::quiet_time = own_quiet_time_;
}

}  // namespace ringrad
