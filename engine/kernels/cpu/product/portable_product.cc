#include "engine/kernels/cpu/product/portable_product.h"

#include <algorithm>

#include "engine/kernels/cpu/vector/unroll.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/product/portable_product.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
#include "engine/kernels/cpu/vector/tail-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRows = 6;    // rows of C in registers, two vectors each: 12 of 16 registers
constexpr int64_t kPanel = 64;  // rows of B that stay in the cache while few rows of C use them

// R rows of C and kVectors vectors of columns, or `tail` columns of one vector.
template <typename T, int R, int kVectors, bool kTail>
void Block(const PortableProduct& p, const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, T* HWY_RESTRICT c, size_t tail) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  const auto load = [&](const T* from) HWY_ATTR { return kTail ? LoadTail(d, from, tail) : hn::LoadU(d, from); };
  V sum[R][kVectors];
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = p.add ? load(c + r * p.c_row + static_cast<size_t>(v) * lanes) : hn::Zero(d);
  }
  const int64_t a_row = p.a_row, a_k = p.a_k, b_row = p.b_row;
  for (int64_t k = 0; k < p.k; ++k, a += a_k, b += b_row) {
    V columns[kVectors];
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + static_cast<size_t>(v) * lanes);
    RIVULET_UNROLL
    for (int r = 0; r < R; ++r) {
      const V x = hn::Set(d, a[r * a_row]);
      RIVULET_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Mul(x, columns[v]));
    }
  }
  RIVULET_UNROLL
  for (int r = 0; r < R; ++r) {
    RIVULET_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      T* to = c + r * p.c_row + static_cast<size_t>(v) * lanes;
      if (kTail) {
        StoreTail(sum[r][v], d, to, tail);
      } else {
        hn::StoreU(sum[r][v], d, to);
      }
    }
  }
}

template <typename T, int R>
void RowsOf(const PortableProduct& p, const T* a, const T* b, T* c) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  int64_t column = 0;
  for (; column + 2 * lanes <= p.n; column += 2 * lanes) Block<T, R, 2, false>(p, a, b + column, c + column, 0);
  for (; column + lanes <= p.n; column += lanes) Block<T, R, 1, false>(p, a, b + column, c + column, 0);
  if (column < p.n) Block<T, R, 1, true>(p, a, b + column, c + column, static_cast<size_t>(p.n - column));
}

template <typename T>
void AllRows(const PortableProduct& p, const T* a, const T* b, T* c) {
  using Fn = void (*)(const PortableProduct&, const T*, const T*, T*);
  static constexpr Fn kTable[] = {&RowsOf<T, 1>, &RowsOf<T, 2>, &RowsOf<T, 3>,
                                  &RowsOf<T, 4>, &RowsOf<T, 5>, &RowsOf<T, 6>};
  const int64_t blocks = (p.m + kRows - 1) / kRows, share = blocks == 0 ? 1 : (p.m + blocks - 1) / blocks;
  for (int64_t row = 0; row < p.m; row += share)
    kTable[std::min(share, p.m - row) - 1](p, a + row * p.a_row, b, c + row * p.c_row);
}

template <typename T>
void Product(const PortableProduct& product, const T* a, const T* b, T* c) {
  PortableProduct panel = product;
  // With many rows of C, or few of B, B is in the cache anyway.
  if (product.m > 4 * kRows || product.k <= kPanel) return AllRows(panel, a, b, c);
  for (int64_t k = 0; k < product.k; k += kPanel) {
    panel.k = std::min(kPanel, product.k - k);
    AllRows(panel, a + k * product.a_k, b + k * product.b_row, c);
    panel.add = true;
  }
}

void ProductF32(const PortableProduct& product, const float* a, const float* b, float* c) { Product(product, a, b, c); }
void ProductF64(const PortableProduct& product, const double* a, const double* b, double* c) {
  Product(product, a, b, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {

HWY_EXPORT(ProductF32);
HWY_EXPORT(ProductF64);

void RunPortableProduct(const PortableProduct& product, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(ProductF32)(product, a, b, c);
}
void RunPortableProduct(const PortableProduct& product, const double* a, const double* b, double* c) {
  HWY_DYNAMIC_DISPATCH(ProductF64)(product, a, b, c);
}

}  // namespace rivulet
#endif
