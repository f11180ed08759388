#include "tests/bench/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/peak.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 12 independent chains of multiply-adds hide their latency; returns operations done.
double MultiplyAdds(float* sink, int64_t rounds) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, 0.999f), y = hn::Set(d, 1e-6f);
  // Chains that start alike would be computed once.
  const auto start = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  auto s0 = start(0.0f), s1 = start(0.1f), s2 = start(0.2f), s3 = start(0.3f), s4 = start(0.4f), s5 = start(0.5f);
  auto s6 = start(0.6f), s7 = start(0.7f), s8 = start(0.8f), s9 = start(0.9f), s10 = start(1.0f), s11 = start(1.1f);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, x, y);
    s1 = hn::MulAdd(s1, x, y);
    s2 = hn::MulAdd(s2, x, y);
    s3 = hn::MulAdd(s3, x, y);
    s4 = hn::MulAdd(s4, x, y);
    s5 = hn::MulAdd(s5, x, y);
    s6 = hn::MulAdd(s6, x, y);
    s7 = hn::MulAdd(s7, x, y);
    s8 = hn::MulAdd(s8, x, y);
    s9 = hn::MulAdd(s9, x, y);
    s10 = hn::MulAdd(s10, x, y);
    s11 = hn::MulAdd(s11, x, y);
  }
  const auto a = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), b = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  const auto c = hn::Add(hn::Add(s8, s9), hn::Add(s10, s11));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, hn::Add(b, c))));
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

void Read(const float* data, size_t count, float* sink) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * lanes));
  }
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet::bench {
namespace {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(Read);

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
volatile float sink_of_results = 0;

}  // namespace

double PeakGflops() {
  static double best = 0;
  for (int run = 0; run < 20; ++run) {
    float sink = 0;
    const double start = Now();
    const double operations = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(&sink, 400000);
    best = std::max(best, operations / (Now() - start) / 1e9);
    sink_of_results = sink;
  }
  return best;
}

double ReadGigabytes() {
  static const double best = [] {
    const std::vector<float> data(size_t{64} << 20, 1.0f);  // 256 MiB
    double rate = 0;
    for (int run = 0; run < 5; ++run) {
      float sink = 0;
      const double start = Now();
      HWY_DYNAMIC_DISPATCH(Read)(data.data(), data.size(), &sink);
      rate = std::max(rate, static_cast<double>(data.size() * sizeof(float)) / (Now() - start) / 1e9);
      sink_of_results = sink;
    }
    return rate;
  }();
  return best;
}

}  // namespace rivulet::bench
#endif
