// Pools over NCHW. Windows are reduced over their rows first, into a line as wide as the image, and then along it.
#include <algorithm>

#include "engine/kernels/cpu/convolution/pooling_plan.h"
#include "engine/program/memory_plan.h"

// The build's -O2 vectorises very little; these loops are written for it.
#pragma GCC optimize("O3")

namespace rivulet {
namespace {

// NaN wins.
template <typename T>
T Larger(T best, T x) {
  return x > best || x != x ? x : best;
}

template <typename T>
class PlaneKernel final : public Kernel {
 public:
  PlaneKernel(Pool pool, PoolPlan plan) : pool_(pool), plan_(std::move(plan)) {}

  Status Run(const KernelContext& context) const override {
    if (plan_.in_elements() == 0 || plan_.out_elements() == 0) {
      const bool to_image = pool_ == Pool::kMaxGrad || pool_ == Pool::kMaxGradRelu || pool_ == Pool::kAvgGrad;
      std::fill_n(reinterpret_cast<T*>(context.outputs[0]), to_image ? plan_.in_elements() : plan_.out_elements(),
                  T{0});
      return {};
    }
    const int64_t in_plane = plan_.in_height * plan_.in_width, out_plane = plan_.out_height * plan_.out_width;
    const auto in = [&](size_t i, int64_t offset) { return reinterpret_cast<const T*>(context.inputs[i]) + offset; };
    T* out = reinterpret_cast<T*>(context.outputs[0]);
    T* line = reinterpret_cast<T*>(context.scratch);
    for (int64_t plane = 0; plane < plan_.batch * plan_.channels; ++plane) {
      const int64_t image = plane * in_plane, pooled = plane * out_plane;
      switch (pool_) {
        case Pool::kMax:
          Max(in(0, image), line, out + pooled);
          break;
        case Pool::kMaxGrad:
          MaxGrad<false>(in(0, image), in(1, pooled), in(2, pooled), out + image);
          break;
        case Pool::kMaxGradRelu:
          MaxGrad<true>(in(0, image), in(1, pooled), in(2, pooled), out + image);
          break;
        case Pool::kMaxGradGrad:
          MaxGradGrad(in(0, image), in(1, pooled), in(2, image), out + pooled);
          break;
        case Pool::kAvg:
          Avg(in(0, image), line, out + pooled);
          break;
        case Pool::kAvgGrad:
          AvgGrad(in(1, pooled), line, out + image);
          break;
      }
    }
    return {};
  }

 private:
  void Max(const T* image, T* line, T* out) const {
    const int64_t width = plan_.in_width;
    for (const PoolSpan& rows : plan_.rows) {
      const T* row = image + rows.first * width;
      std::copy_n(row, width, line);
      for (int64_t y = 1; y < rows.count; ++y) {
        row += plan_.step_height * width;
#pragma GCC ivdep
        for (int64_t x = 0; x < width; ++x) line[x] = Larger(line[x], row[x]);
      }
      for (const PoolSpan& columns : plan_.columns) {
        const T* at = line + columns.first;
        T best = *at;
        for (int64_t x = 1; x < columns.count; ++x) best = Larger(best, at[x * plan_.step_width]);
        *out++ = best;
      }
    }
  }

  // The offset of a window's first element equal to `best`; -1 if there is none (NaN).
  int64_t FirstLargest(const T* image, const PoolSpan& rows, const PoolSpan& columns, T best) const {
    for (int64_t y = 0; y < rows.count; ++y) {
      const int64_t row = (rows.first + y * plan_.step_height) * plan_.in_width + columns.first;
      for (int64_t x = 0; x < columns.count; ++x)
        if (image[row + x * plan_.step_width] == best) return row + x * plan_.step_width;
    }
    return -1;
  }

  template <bool kRelu>
  void MaxGrad(const T* image, const T* largest, const T* gradient, T* result) const {
    std::fill_n(result, plan_.in_height * plan_.in_width, T{0});
    for (const PoolSpan& rows : plan_.rows) {
      for (const PoolSpan& columns : plan_.columns) {
        const T best = *largest++, share = *gradient++;
        if (kRelu && !(best > T{0})) continue;
        const int64_t at = FirstLargest(image, rows, columns, best);
        if (at >= 0) result[at] += share;
      }
    }
  }

  void MaxGradGrad(const T* image, const T* largest, const T* gradient, T* out) const {
    for (const PoolSpan& rows : plan_.rows) {
      for (const PoolSpan& columns : plan_.columns) {
        const int64_t at = FirstLargest(image, rows, columns, *largest++);
        *out++ = at < 0 ? T{0} : gradient[at];
      }
    }
  }

  void Avg(const T* image, T* line, T* out) const {
    const int64_t width = plan_.in_width;
    for (const PoolSpan& rows : plan_.rows) {
      std::fill_n(line, width, T{0});
      const T* row = image + rows.first * width;
      for (int64_t y = 0; y < rows.count; ++y, row += plan_.step_height * width) {
#pragma GCC ivdep
        for (int64_t x = 0; x < width; ++x) line[x] += row[x];
      }
      for (const PoolSpan& columns : plan_.columns) {
        const T* at = line + columns.first;
        T sum{0};
        for (int64_t x = 0; x < columns.count; ++x) sum += at[x * plan_.step_width];
        *out++ = sum / static_cast<T>(rows.counted * columns.counted);
      }
    }
  }

  void AvgGrad(const T* gradient, T* line, T* result) const {
    const int64_t width = plan_.in_width;
    std::fill_n(result, plan_.in_height * width, T{0});
    for (const PoolSpan& rows : plan_.rows) {
      std::fill_n(line, width, T{0});
      for (const PoolSpan& columns : plan_.columns) {
        const T share = *gradient++ / static_cast<T>(rows.counted * columns.counted);
        for (int64_t x = 0; x < columns.count; ++x) line[columns.first + x * plan_.step_width] += share;
      }
      T* row = result + rows.first * width;
      for (int64_t y = 0; y < rows.count; ++y, row += plan_.step_height * width) {
#pragma GCC ivdep
        for (int64_t x = 0; x < width; ++x) row[x] += line[x];
      }
    }
  }

  Pool pool_;
  PoolPlan plan_;
};

}  // namespace

template <typename T>
Prepared PoolOverPlanes(Pool pool, PoolPlan plan) {
  Prepared prepared;
  prepared.scratch_bytes = static_cast<size_t>(plan.in_width) * sizeof(T);
  prepared.kernel = std::make_unique<PlaneKernel<T>>(pool, std::move(plan));
  prepared.implementation = "planes";
  return prepared;
}

template Prepared PoolOverPlanes<float>(Pool, PoolPlan);
template Prepared PoolOverPlanes<double>(Pool, PoolPlan);

}  // namespace rivulet
