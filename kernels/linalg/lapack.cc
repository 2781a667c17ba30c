#include "ringrad/kernels/linalg/lapack.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/parallel_for.h"

// g++ 16 takes the lambdas below that call LAPACK for functions that are meant to be constexpr.
#if defined(__GNUC__) && __GNUC__ >= 16 && !defined(__clang__)
#pragma GCC diagnostic ignored "-Winvalid-constexpr"
#endif

// Fortran passes pointers, and the lengths of texts after all other arguments.
#define RINGRAD_LAPACK(T, p)                                                                       \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, std::size_t);    \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);        \
  void p##getrf2_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);       \
  void p##getrs_(const char* trans, const int* n, const int* k, const T* a, const int* lda,        \
                 const int* pivots, T* b, const int* ldb, int* info, std::size_t);                 \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,                \
                 const int* size, int* info);                                                      \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau,     \
                 T* work, const int* size, int* info);                                             \
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, T* s, T* u,    \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* size, int* integers,  \
                 int* info, std::size_t);                                                          \
  void p##syevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* values, \
                 T* work, const int* size, int* integers, const int* num_integers, int* info,      \
                 std::size_t, std::size_t);

extern "C" {
RINGRAD_LAPACK(float, s)
RINGRAD_LAPACK(double, d)
}

namespace ringrad::kernels::lapack {
namespace {

template <class T>
struct Lapack;
#define RINGRAD_LAPACK_NAMES(T, p)             \
  template <>                                  \
  struct Lapack<T> {                           \
    static constexpr auto potrf = p##potrf_;   \
    static constexpr auto getrf = p##getrf_;   \
    static constexpr auto getrf2 = p##getrf2_; \
    static constexpr auto getrs = p##getrs_;   \
    static constexpr auto geqrf = p##geqrf_;   \
    static constexpr auto orgqr = p##orgqr_;   \
    static constexpr auto gesdd = p##gesdd_;   \
    static constexpr auto syevd = p##syevd_;   \
  };
RINGRAD_LAPACK_NAMES(float, s)
RINGRAD_LAPACK_NAMES(double, d)

int extent(const Tensor& x, int from_end) {
  return static_cast<int>(x.shape()[x.dims() - from_end]);
}

std::int64_t batch_of(const Tensor& x, int matrix_axes) {
  std::int64_t batch = 1;
  for (int i = 0; i < x.dims() - matrix_axes; ++i) batch *= x.shape()[i];
  return batch;
}

// The size of workspace that a routine asked for by a number.
template <class T>
int asked(T size) {
  // A float above 2^24 may be rounded down.
  const T next = std::nextafter(size, std::numeric_limits<T>::infinity());
  return std::max(1, static_cast<int>(std::ceil(next)));
}

// While it exists, OpenBLAS starts no threads for this thread's calls: it asks OpenMP how many.
class OneThread {
 public:
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

// Calls body(element), which returns LAPACK's info, for each element of the batch; the first one
// whose info is not 0, or -1. A piece should have 100,000 multiplications.
template <class Body>
std::int64_t for_each_element(std::int64_t batch, double multiplications, Body body) {
  std::atomic<std::int64_t> first{batch};
  const auto grain = static_cast<std::int64_t>(1 + 1e5 / (1 + multiplications));
  parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    const OneThread guard;
    for (std::int64_t i = begin; i < end; ++i) {
      if (body(i) == 0) continue;
      for (std::int64_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
      }
    }
  });
  return first < batch ? first.load() : -1;
}

// An iteration on NaN may never end.
template <class T>
bool all_finite(const T* x, std::int64_t count) {
  return std::all_of(x, x + count, [](T number) { return std::isfinite(number); });
}

double cube(int n) { return static_cast<double>(n) * n * n; }

// OpenBLAS multiplies by a pivot's reciprocal, which overflows for a subnormal pivot: then there
// are NaN. getrf2 and, with one right side, getrs divide.
template <class T>
bool has_subnormal_pivot(const T* factors, int n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (const T pivot = std::abs(factors[i * n + i]);
        pivot > 0 && pivot < std::numeric_limits<T>::min())
      return true;
  return false;
}

}  // namespace

std::int64_t cholesky(const Tensor& a) {
  const int n = extent(a, 1);
  if (a.numel() == 0) return -1;
  return dispatch_math(a.dtype(), [&]<class T>() {
    T* const all = a.data<T>();
    return for_each_element(batch_of(a, 2), cube(n), [&](std::int64_t element) {
      T* const matrix = all + element * n * n;
      int info = 0;
      Lapack<T>::potrf("L", &n, matrix, &n, &info, 1);
      // It takes NaN for a positive pivot. What is not finite left of the diagonal reaches it.
      for (std::int64_t i = 0; i < n; ++i)
        if (!std::isfinite(matrix[i * n + i])) info = 1;
      for (std::int64_t column = 1; column < n; ++column)
        std::fill_n(matrix + column * n, column, T{0});
      return info;
    });
  });
}

std::int64_t lu(const Tensor& a, const Tensor& pivots) {
  const int n = extent(a, 1);
  if (a.numel() == 0) return -1;
  return dispatch_math(a.dtype(), [&]<class T>() {
    T* const all = a.data<T>();
    int* const exchanged = pivots.data<std::int32_t>();
    return for_each_element(batch_of(a, 2), cube(n), [&](std::int64_t element) {
      int info = 0;
      T* const matrix = all + element * n * n;
      const std::vector<T> given(matrix, matrix + std::int64_t{n} * n);
      Lapack<T>::getrf(&n, &n, matrix, &n, exchanged + element * n, &info);
      if (!has_subnormal_pivot(matrix, n)) return info;
      std::copy(given.begin(), given.end(), matrix);
      Lapack<T>::getrf2(&n, &n, matrix, &n, exchanged + element * n, &info);
      return info;
    });
  });
}

void solve_lu(const Tensor& factors, const Tensor& pivots, const Tensor& b) {
  const int n = extent(b, 1), k = extent(b, 2);
  if (b.numel() == 0) return;
  dispatch_math(b.dtype(), [&]<class T>() {
    const T* const all = factors.data<const T>();
    const int* const exchanged = pivots.data<const std::int32_t>();
    T* const sides = b.data<T>();
    const auto multiplications = static_cast<double>(n) * n * k;
    return for_each_element(batch_of(b, 2), multiplications, [&](std::int64_t element) {
      const T* const matrix = all + element * n * n;
      const int at_once = has_subnormal_pivot(matrix, n) ? 1 : k;
      int info = 0;
      for (std::int64_t i = 0; i < k; i += at_once)
        Lapack<T>::getrs("N", &n, &at_once, matrix, &n, exchanged + element * n,
                         sides + (element * k + i) * n, &n, &info, 1);
      return info;
    });
  });
}

void qr(const Tensor& a, const Tensor& r) {
  const int m = extent(a, 1), n = extent(a, 2);
  if (a.numel() == 0) return;
  dispatch_math(a.dtype(), [&]<class T>() {
    T* const all = a.data<T>();
    T* const triangles = r.data<T>();
    const int query = -1;
    T factor_size{}, form_size{};
    int info = 0;
    Lapack<T>::geqrf(&m, &n, all, &m, &factor_size, &factor_size, &query, &info);
    Lapack<T>::orgqr(&m, &n, &n, all, &m, &form_size, &form_size, &query, &info);
    const int size = std::max(asked(factor_size), asked(form_size));
    const auto multiplications = static_cast<double>(m) * n * n;
    return for_each_element(batch_of(a, 2), multiplications, [&](std::int64_t element) {
      std::vector<T> work(static_cast<std::size_t>(size)), tau(static_cast<std::size_t>(n));
      T* const matrix = all + element * m * n;
      T* const triangle = triangles + element * n * n;
      int failed = 0;
      Lapack<T>::geqrf(&m, &n, matrix, &m, tau.data(), work.data(), &size, &failed);
      for (std::int64_t column = 0; column < n; ++column) {
        std::copy_n(matrix + column * m, column + 1, triangle + column * n);
        std::fill(triangle + column * n + column + 1, triangle + (column + 1) * n, T{0});
      }
      Lapack<T>::orgqr(&m, &n, &n, matrix, &m, tau.data(), work.data(), &size, &failed);
      return failed;
    });
  });
}

std::int64_t svd(const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt) {
  const int m = extent(a, 1), n = extent(a, 2), k = std::min(m, n);
  if (a.numel() == 0) return -1;
  return dispatch_math(a.dtype(), [&]<class T>() {
    const auto num_integers = static_cast<std::size_t>(8 * std::int64_t{k});
    const auto run = [&](std::int64_t element, T* work, int size, int* integers) {
      int info = 0;
      Lapack<T>::gesdd("S", &m, &n, a.data<T>() + element * m * n, &m, s.data<T>() + element * k,
                       u.data<T>() + element * m * k, &m, vt.data<T>() + element * k * n, &k, work,
                       &size, integers, &info, 1);
      return info;
    };
    T wanted{};
    std::vector<int> unused(num_integers);
    run(0, &wanted, -1, unused.data());
    const int size = asked(wanted);
    const auto multiplications = 4. * m * n * k;
    return for_each_element(batch_of(a, 2), multiplications, [&](std::int64_t element) {
      if (!all_finite(a.data<T>() + element * m * n, std::int64_t{m} * n)) return 1;
      std::vector<T> work(static_cast<std::size_t>(size));
      std::vector<int> integers(num_integers);
      return run(element, work.data(), size, integers.data());
    });
  });
}

std::int64_t eigh(const Tensor& a, const Tensor& values) {
  const int n = extent(a, 1);
  if (a.numel() == 0) return -1;
  return dispatch_math(a.dtype(), [&]<class T>() {
    const auto run = [&](std::int64_t element, T* work, int size, int* integers, int num_integers) {
      int info = 0;
      Lapack<T>::syevd("V", "L", &n, a.data<T>() + element * n * n, &n,
                       values.data<T>() + element * n, work, &size, integers, &num_integers, &info,
                       1, 1);
      return info;
    };
    T wanted{};
    int num_integers = 0;
    run(0, &wanted, -1, &num_integers, -1);
    const int size = asked(wanted);
    return for_each_element(batch_of(a, 2), 4 * cube(n), [&](std::int64_t element) {
      T* const matrix = a.data<T>() + element * n * n;
      if (!all_finite(matrix, std::int64_t{n} * n)) return 1;
      std::vector<T> work(static_cast<std::size_t>(size));
      std::vector<int> integers(static_cast<std::size_t>(num_integers));
      return run(element, work.data(), size, integers.data(), num_integers);
    });
  });
}

}  // namespace ringrad::kernels::lapack
