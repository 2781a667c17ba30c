#include "ringrad/parallel/train/checkpoint/checkpoint_agreement.h"

#include <zlib.h>

#include <algorithm>
#include <exception>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/parallel/comm/gather_values.h"

namespace ringrad {

// Every rank's text, on all ranks.
std::vector<std::string> texts_of_all(const std::string& ours, Communicator& comm, Where where) {
  const int n = comm.world_size();
  const Options bytes{.dtype = DType::uint8, .device = Device()};
  const std::vector<std::int64_t> lengths = gather_values(comm, std::ssize(ours), where);
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest == 0) return std::vector<std::string>(static_cast<std::size_t>(n));
  const Tensor own = zeros({longest}, bytes, where), all = empty({n * longest}, bytes, where);
  std::copy(ours.begin(), ours.end(), own.data<std::uint8_t>());
  comm.all_gather(all, own, where);
  std::vector<std::string> texts;
  for (int rank = 0; rank < n; ++rank) {
    const std::uint8_t* const begin = all.data<std::uint8_t>() + rank * longest;
    texts.emplace_back(begin, begin + lengths[static_cast<std::size_t>(rank)]);
  }
  return texts;
}

std::int64_t agree_on_generation(Communicator& comm, Where where) {
  const Options number{.dtype = DType::int64, .device = Device()};
  const Tensor largest = full({1}, nn::run_generation(), number, where);
  comm.all_reduce(largest, ReduceOp::max, where);
  nn::raise_generation(largest.item<std::int64_t>(where));
  return largest.item<std::int64_t>(where);
}

// Throws on all ranks if any rank has an error.
void throw_of_any(const std::string& error, Communicator& comm, Where where) {
  const std::vector<std::string> errors = texts_of_all(error, comm, where);
  for (int rank = 0; rank < comm.world_size(); ++rank)
    if (const std::string& text = errors[static_cast<std::size_t>(rank)]; !text.empty())
      throw DataError(concat("rank ", rank, ": ", text), where);
}

void on_all_ranks(Communicator& comm, Where where, const std::function<void()>& body) {
  throw_of_any(error_of(body), comm, where);
}

std::vector<std::vector<PieceFacts>> facts_of_all(const std::vector<PieceFacts>& ours,
                                                  Communicator& comm, Where where) {
  std::vector<std::vector<PieceFacts>> all;
  for (const std::string& text : texts_of_all(text_of(ours), comm, where))
    all.push_back(parse_pieces(text));
  return all;
}

Tensor host_copy(const Tensor& x, Where where) {
  const Tensor copy = empty(x.shape(), {.dtype = x.dtype(), .device = Device()}, where);
  kernels::copy_(copy, x, where);
  return copy;
}

std::uint32_t crc_of(const Tensor& host) {
  const auto bytes = static_cast<std::size_t>(host.numel()) * size_bytes(host.dtype());
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(host.raw_data()), bytes));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(error.message());
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of another type";
  }
  return {};
}

}  // namespace ringrad
