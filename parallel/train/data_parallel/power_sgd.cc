#include "ringrad/parallel/train/data_parallel/power_sgd.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/parallel/train/data_parallel/error_memory.h"
#include "ringrad/parallel/train/data_parallel/hook_state.h"

namespace ringrad {
namespace {

// A column that shrinks below this fraction, once its part in the span of the earlier columns is
// removed, is rounding error.
constexpr double kDependent = 1e-5;

Tensor transposed(const Tensor& x) { return view::transpose(x, 0, 1); }
Tensor column_of(const Tensor& x, std::int64_t i) { return view::slice(x, 1, i, i + 1); }

// Makes the columns orthonormal, or zero if they depend on earlier columns. The result, (1, rank),
// says which columns are independent. Uses sums and products alone, whose bits do not depend on the
// number of threads: ranks must agree.
//
// What the first subtraction leaves by cancellation, the second removes ("twice is enough").
Tensor orthogonalize(const Tensor& p) {
  const Tensor largest = max(abs(p), {0}, true);
  div_(p, ringrad::where(largest > 0, largest, 1));  // squares neither overflow nor vanish
  const Tensor stands = zeros({1, p.size(1)}, {.dtype = DType::bool_, .device = p.device()});
  for (std::int64_t i = 0; i < p.size(1); ++i) {
    const Tensor column = column_of(p, i);
    const Tensor before = sqrt(sum(square(column)));
    for (int time = 0; time < 2; ++time)
      for (std::int64_t j = 0; j < i; ++j) {
        const Tensor earlier = column_of(p, j);
        sub_(column, earlier * sum(earlier * column));
      }
    const Tensor length = sqrt(sum(square(column)));
    const Tensor is_new = length > kDependent * before;
    mul_(column, ringrad::where(is_new, 1 / length, 0));
    copy_(column_of(stands, i), is_new);
  }
  return stands;
}

// True if all elements are finite, as a tensor on x's device.
Tensor all_finite(const Tensor& x) { return isfinite(sum(x * 0)); }

// Several tensors packed one after another, so that they are sent together.
class Message {
 public:
  Message(std::int64_t count, const Tensor& like, Where where)
      : flat_(empty({count}, {.dtype = like.dtype(), .device = like.device()}, where)) {}

  Tensor piece(const Shape& shape) {
    const Tensor part = view::slice(flat_, 0, used_, used_ + shape.numel());
    used_ += shape.numel();
    return view::reshape(part, shape);
  }
  void average(Communicator& comm, Where where) const {
    if (flat_.numel() > 0) comm.all_reduce(flat_, ReduceOp::mean, where);
  }

 private:
  const Tensor flat_;
  std::int64_t used_ = 0;
};

class PowerSgd final : public HookState {
 public:
  PowerSgd(int rank, std::uint64_t seed, Where where)
      : rank_(rank), where_(where), generator_(seed) {}

  void average(const GradientBucket& bucket, Communicator& comm);

  nn::StateDict state() const override;
  void check(const nn::StateDict& state, Where where) const override;
  void load(const nn::StateDict& state, Where where) override;

 private:
  struct Matrix {
    Tensor gradients, left, sum;  // (rows, columns); sum is M
    Tensor p;                     // (rows, rank)
    Tensor q;                     // (columns, rank)
    Tensor start;                 // the same; kept for the next pass
    Tensor is_finite;             // the average
  };
  struct Vector {
    Tensor gradients, left, sum, sent;
  };

  bool is_compressed(const Shape& shape) const {
    if (shape.size() < 2 || shape.numel() == 0) return false;
    return rank_ * (shape[0] + shape.numel() / shape[0]) < shape.numel();
  }
  Tensor random_start(std::int64_t columns, const Tensor& like) {
    const Options options{.dtype = like.dtype(), .device = like.device()};
    return randn({columns, rank_}, options, generator_, where_);
  }
  void send_p(Communicator& comm, std::vector<Matrix>& matrices, std::vector<Vector>& vectors);
  void send_q(Communicator& comm, std::vector<Matrix>& matrices);

  const std::int64_t rank_;
  const Where where_;
  Generator generator_;  // buckets come in the same order on all ranks, and so do the draws
  ErrorMemory memory_;
  std::map<std::string, Tensor> starts_;  // by parameter
};

void PowerSgd::average(const GradientBucket& bucket, Communicator& comm) {
  const NoGradGuard guard;
  // What is left changes only when the average has come and is finite.
  const Tensor left = memory_.left_of(bucket, where_), sum = kernels::clone(left, where_);
  kernels::add_(sum, bucket.gradients, 1, where_);
  std::vector<Matrix> matrices;
  std::vector<Vector> vectors;
  for (const auto& [name, shape, offset] : bucket.parameters) {
    const auto part_of = [&, begin = offset, count = shape.numel()](const Tensor& all) {
      return view::slice(all, 0, begin, begin + count);
    };
    if (!is_compressed(shape)) {
      vectors.push_back({part_of(bucket.gradients), part_of(left), part_of(sum), {}});
      continue;
    }
    const std::int64_t columns = shape.numel() / shape[0];
    const auto matrix_of = [&](const Tensor& all) {
      return view::reshape(part_of(all), {shape[0], columns});
    };
    Tensor& start = starts_[name];
    if (!start.defined()) start = random_start(columns, left);
    if (start.device() != left.device()) start = to_device(start, left.device(), where_);
    matrices.push_back(
        {matrix_of(bucket.gradients), matrix_of(left), matrix_of(sum), {}, {}, start, {}});
  }
  send_p(comm, matrices, vectors);
  send_q(comm, matrices);
}

// "left.<parameter>", "start.<parameter>", and "random": seed and offset.
nn::StateDict PowerSgd::state() const {
  nn::StateDict state = memory_.state();
  for (const auto& [name, start] : starts_) state.emplace("start." + name, start);
  const Tensor random = empty({2}, {.dtype = DType::int64, .device = Device()});
  random.data<std::int64_t>()[0] = static_cast<std::int64_t>(generator_.seed());
  random.data<std::int64_t>()[1] = static_cast<std::int64_t>(generator_.offset());
  state.emplace("random", random);
  return state;
}

nn::StateDict errors_in(const nn::StateDict& state) {
  nn::StateDict errors;
  for (const auto& [name, tensor] : state)
    if (name.starts_with("left.")) errors.emplace(name, tensor);
  return errors;
}

void PowerSgd::check(const nn::StateDict& state, Where where) const {
  const auto random = state.find("random");
  RINGRAD_CHECK(random != state.end() && random->second.numel() == 2, ValueError, where,
                "power_sgd: its state must have \"random\" of two numbers; got another");
  memory_.check(errors_in(state), where);
}

void PowerSgd::load(const nn::StateDict& state, Where where) {
  check(state, where);
  std::map<std::string, Tensor> starts;
  for (const auto& [name, tensor] : state)
    if (name.starts_with("start.")) starts.emplace(name.substr(6), kernels::clone(tensor, where));
  memory_.load(errors_in(state), where);
  starts_ = std::move(starts);
  const auto numbers = state.at("random").to_vector<std::int64_t>();
  generator_ = Generator(static_cast<std::uint64_t>(numbers[0]));
  generator_.set_offset(static_cast<std::uint64_t>(numbers[1]));
}

// Sends P, together with the parameters that are not compressed.
void PowerSgd::send_p(Communicator& comm, std::vector<Matrix>& matrices,
                      std::vector<Vector>& vectors) {
  std::int64_t count = 0;
  for (const Matrix& m : matrices) count += m.left.size(0) * rank_;
  for (const Vector& v : vectors) count += v.left.numel();
  Message message(count, matrices.empty() ? vectors.front().left : matrices.front().left, where_);
  for (Matrix& m : matrices) {
    m.p = message.piece({m.left.size(0), rank_});
    kernels::matmul_out(m.sum, m.start, {}, m.p, where_);
  }
  for (Vector& v : vectors) {
    v.sent = message.piece(v.left.shape());
    copy_(v.sent, v.sum, where_);
  }
  message.average(comm, where_);
  for (Matrix& m : matrices) m.is_finite = all_finite(m.p);
  for (const Vector& v : vectors) {
    copy_(v.gradients, v.sent, where_);
    copy_(v.left, ringrad::where(all_finite(v.sent), 0, v.left), where_);
  }
}

void PowerSgd::send_q(Communicator& comm, std::vector<Matrix>& matrices) {
  if (matrices.empty()) return;
  std::int64_t count = 0;
  for (const Matrix& m : matrices) count += m.left.size(1) * rank_;
  Message message(count, matrices.front().left, where_);
  std::vector<Tensor> stands;
  for (Matrix& m : matrices) {
    stands.push_back(orthogonalize(m.p));
    m.q = message.piece({m.left.size(1), rank_});
    kernels::matmul_out(transposed(m.sum), m.p, {}, m.q, where_);
    sub_(m.sum, matmul(m.p, transposed(m.q)), where_);
  }
  message.average(comm, where_);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& m = matrices[i];
    copy_(m.gradients, matmul(m.p, transposed(m.q)), where_);
    const Tensor is_finite = logical_and(m.is_finite, all_finite(m.q));
    const Tensor next = ringrad::where(stands[i], m.q, random_start(m.q.size(0), m.q));
    copy_(m.start, ringrad::where(is_finite, next, m.start), where_);
    copy_(m.left, ringrad::where(logical_and(is_finite, isfinite(m.sum)), m.sum, m.left), where_);
  }
}

}  // namespace

CommunicationHook power_sgd(const PowerSgdOptions& options, Where where) {
  RINGRAD_CHECK(options.rank > 0, ValueError, where, "power_sgd: rank must be positive; got ",
                options.rank);
  const auto state = std::make_shared<PowerSgd>(options.rank, options.seed, where);
  const auto reduce = [state, where](const GradientBucket& bucket, CommunicationStream& stream) {
    const auto average = [state, &bucket](Communicator& comm) { state->average(bucket, comm); };
    return stream.run(concat("bucket ", bucket.index, " by PowerSGD"), average, where);
  };
  return hook_with_state(state, reduce);
}

}  // namespace ringrad
