// The declarations in parallel/comm/gpu/nccl_library.h must agree with NCCL's own header.

#include <gtest/gtest.h>

#include "ringrad/parallel/comm/gpu/nccl_library.h"

#if defined(RINGRAD_NCCL_HEADER) && __has_include(<nccl.h>)

#include <nccl.h>

#include <cstddef>
#include <string>
#include <type_traits>

namespace ringrad {
namespace {

// --- Values ---

template <class Own, class Theirs>
constexpr bool same(Own own, Theirs theirs) {
  return static_cast<int>(own) == static_cast<int>(theirs);
}

static_assert(same(nccl::Result::success, ncclSuccess));
static_assert(same(nccl::Result::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(same(nccl::Result::system_error, ncclSystemError));
static_assert(same(nccl::Result::internal_error, ncclInternalError));
static_assert(same(nccl::Result::invalid_argument, ncclInvalidArgument));
static_assert(same(nccl::Result::invalid_usage, ncclInvalidUsage));
static_assert(same(nccl::Result::remote_error, ncclRemoteError));
static_assert(same(nccl::Result::in_progress, ncclInProgress));

static_assert(same(nccl::DataType::uint8, ncclUint8));
static_assert(same(nccl::DataType::int32, ncclInt32));
static_assert(same(nccl::DataType::int64, ncclInt64));
static_assert(same(nccl::DataType::float16, ncclFloat16));
static_assert(same(nccl::DataType::float32, ncclFloat32));
static_assert(same(nccl::DataType::float64, ncclFloat64));
static_assert(same(nccl::DataType::bfloat16, ncclBfloat16));

static_assert(same(nccl::RedOp::sum, ncclSum));
static_assert(same(nccl::RedOp::product, ncclProd));
static_assert(same(nccl::RedOp::max, ncclMax));
static_assert(same(nccl::RedOp::min, ncclMin));
static_assert(same(nccl::RedOp::average, ncclAvg));

static_assert(nccl::version_code(2, 28, 9) == NCCL_VERSION(2, 28, 9));

// --- Layouts ---

static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(nccl::Config, size) == offsetof(ncclConfig_t, size));
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
// NCCL copies `size` bytes over its defaults. The padding at the end of our struct overlaps the
// next field of theirs, which NCCL treats as unset at our version.
static_assert(sizeof(nccl::Config) == offsetof(ncclConfig_t, cgaClusterSize) + sizeof(int));

TEST(NcclHeaderTest, TheConfigurationIsMarkedAsNcclMarksIt) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(nccl::Config{}.magic, theirs.magic);
}

// --- Functions ---

// Enumerations and pointers with other names are passed the same way. All other types must be
// equal.
template <class Own, class Theirs>
constexpr bool passed_alike() {
  if (std::is_pointer_v<Own>) return std::is_pointer_v<Theirs>;
  if (std::is_enum_v<Own>) return std::is_enum_v<Theirs> && sizeof(Own) == sizeof(Theirs);
  if (std::is_same_v<Own, nccl::UniqueId>) return std::is_same_v<Theirs, ncclUniqueId>;
  return std::is_same_v<Own, Theirs>;
}

template <class Own, class Theirs>
struct CalledAlike : std::false_type {};
template <class OwnResult, class... Own, class Result, class... Theirs>
requires(sizeof...(Own) ==
         sizeof...(Theirs)) struct CalledAlike<OwnResult (*)(Own...), Result (*)(Theirs...)>
    : std::bool_constant<passed_alike<OwnResult, Result>() &&
                         (passed_alike<Own, Theirs>() && ...)> {
};

#define EXPECT_CALLED_ALIKE(own, theirs) \
  static_assert(CalledAlike<decltype(nccl::Functions::own), decltype(&theirs)>::value)

EXPECT_CALLED_ALIKE(get_version, ncclGetVersion);
EXPECT_CALLED_ALIKE(get_error_string, ncclGetErrorString);
EXPECT_CALLED_ALIKE(get_last_error, ncclGetLastError);
EXPECT_CALLED_ALIKE(get_unique_id, ncclGetUniqueId);
EXPECT_CALLED_ALIKE(comm_init_rank_config, ncclCommInitRankConfig);
EXPECT_CALLED_ALIKE(comm_get_async_error, ncclCommGetAsyncError);
EXPECT_CALLED_ALIKE(comm_finalize, ncclCommFinalize);
EXPECT_CALLED_ALIKE(comm_destroy, ncclCommDestroy);
EXPECT_CALLED_ALIKE(comm_abort, ncclCommAbort);
EXPECT_CALLED_ALIKE(group_start, ncclGroupStart);
EXPECT_CALLED_ALIKE(group_end, ncclGroupEnd);
EXPECT_CALLED_ALIKE(all_reduce, ncclAllReduce);
EXPECT_CALLED_ALIKE(reduce_scatter, ncclReduceScatter);
EXPECT_CALLED_ALIKE(all_gather, ncclAllGather);
EXPECT_CALLED_ALIKE(broadcast, ncclBroadcast);
EXPECT_CALLED_ALIKE(reduce, ncclReduce);
EXPECT_CALLED_ALIKE(send, ncclSend);
EXPECT_CALLED_ALIKE(recv, ncclRecv);

// Needs no GPU: it asks only for the version.
TEST(NcclHeaderTest, TheLibraryHasEveryFunction) {
  nccl::Library library{};
  try {
    library = nccl::open("", Where::current());
  } catch (const CollectiveError& error) {
    const std::string text = error.what();
    if (text.find("must be there") == std::string::npos) throw;
    GTEST_SKIP() << text;
  }
  EXPECT_GE(library.version, nccl::version_code(2, 14, 0));
  EXPECT_STREQ(library.functions.get_error_string(nccl::Result::success), "no error");
}

}  // namespace
}  // namespace ringrad

#else

TEST(NcclHeaderTest, NeedsTheHeader) { GTEST_SKIP() << "--config=cuda and nccl.h"; }

#endif
