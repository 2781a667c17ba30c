#include "ringrad/parallel/comm/host/tensor_message.h"

#include <cstdint>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/memory/message_channel.h"

namespace ringrad {

static_assert(2 * kTensorsUnderWay <= MessageChannel::kSlots);

namespace {

// What a tensor is, in a message of fixed size.
enum Field : std::size_t { kDType, kLayout, kDims, kExtents };
constexpr std::size_t kFields = kExtents + kMaxDims;

Tensor empty_header(Where where) {
  return empty({static_cast<std::int64_t>(kFields)}, {.dtype = DType::int64, .device = Device()},
               where);
}

bool is_header(const std::int64_t* fields) {
  const auto dims = static_cast<int>(fields[kDims]);
  return fields[kDType] >= 0 && fields[kDType] < kNumDTypes && dims >= 0 && dims <= kMaxDims &&
         (fields[kLayout] == 0 || (fields[kLayout] == 1 && dims == 4));
}

// Its elements as they lie in memory. REQUIRES: x is dense
Tensor flat(const Tensor& x, Where where) {
  return view::as_strided(x, {x.numel()}, {1}, x.offset(), where);
}

}  // namespace

Tensor packed(const Tensor& x, Where where) {
  return x.is_channels_last() ? x : kernels::contiguous(x, where);
}

void send_tensor(Communicator& comm, const Tensor& tensor, int to, Where where) {
  const Tensor x = packed(tensor, where);
  const bool channels_last = !x.is_contiguous();
  const Tensor header = empty_header(where);
  auto* const fields = header.data<std::int64_t>();
  fields[kDType] = static_cast<std::int64_t>(x.dtype());
  fields[kLayout] =
      static_cast<std::int64_t>(channels_last ? Layout::channels_last : Layout::contiguous);
  fields[kDims] = x.dims();
  for (int i = 0; i < kMaxDims; ++i)
    fields[kExtents + static_cast<std::size_t>(i)] = i < x.dims() ? x.shape()[i] : 0;
  comm.send(header, to, where);
  comm.send(flat(x, where), to, where);
}

Tensor recv_tensor(Communicator& comm, int from, Device device, Where where) {
  const Tensor header = empty_header(where);
  comm.recv(header, from, where);
  const auto* const fields = header.data<std::int64_t>();
  if (!is_header(fields))
    throw CollectiveError(concat("recv_tensor: rank ", comm.rank_names()(from),
                                 " must send by send_tensor; got another message"),
                          where);
  Shape shape;
  for (std::int64_t i = 0; i < fields[kDims]; ++i)
    shape.push_back(fields[kExtents + static_cast<std::size_t>(i)]);
  const Tensor x = empty(shape,
                         {.dtype = static_cast<DType>(fields[kDType]),
                          .device = device,
                          .layout = static_cast<Layout>(fields[kLayout])},
                         where);
  comm.recv(flat(x, where), from, where);
  return x;
}

}  // namespace ringrad
