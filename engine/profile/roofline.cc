#include "engine/profile/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/profile/roofline.cc"
// clang-format off
#include "hwy/foreach_target.h"  // first: it includes this file once per target
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rivulet {
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

// `count` is a multiple of 64.
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

void Update(float* data, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, 0.999f);
  for (size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, data + i)), d, data + i);
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, data + i + lanes)), d, data + i + lanes);
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, data + i + 2 * lanes)), d, data + i + 2 * lanes);
    hn::StoreU(hn::Mul(factor, hn::LoadU(d, data + i + 3 * lanes)), d, data + i + 3 * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rivulet
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rivulet {
namespace {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(Read);
HWY_EXPORT(Update);

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Keeps the compiler from removing unread results.
void Use(float value) {
  static std::atomic<float> sink;
  sink.store(value, std::memory_order_relaxed);
}

// From the first cache to beyond the last.
constexpr size_t kFootprints[] = {size_t{24} << 10, size_t{384} << 10, size_t{6} << 20, size_t{128} << 20};

}  // namespace

std::string_view Name(Bound bound) {
  return bound == Bound::kCompute ? "compute" : bound == Bound::kMemory ? "memory" : "overhead";
}

double Roofline::BytesPerSecond(double footprint) const {
  if (footprint <= bandwidths.front().footprint) return bandwidths.front().bytes_per_second;
  for (size_t i = 1; i < bandwidths.size(); ++i) {
    const Bandwidth &near = bandwidths[i - 1], &far = bandwidths[i];
    if (footprint > far.footprint) continue;
    const double between = std::log(footprint / near.footprint) / std::log(far.footprint / near.footprint);
    return near.bytes_per_second + between * (far.bytes_per_second - near.bytes_per_second);
  }
  return bandwidths.back().bytes_per_second;
}

double Roofline::Seconds(double flops, double bytes) const {
  return std::max(flops / flops_per_second, bytes / BytesPerSecond(bytes));
}

Bound Roofline::BoundOf(double flops, double bytes, double seconds) const {
  if (seconds < kOverheadSeconds) return Bound::kOverhead;
  return flops / flops_per_second > bytes / BytesPerSecond(bytes) ? Bound::kCompute : Bound::kMemory;
}

double MeasureFlopsPerSecond() {
  double best = 0;
  for (int run = 0; run < 10; ++run) {
    float sink = 0;
    const double start = Now();
    const double operations = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(&sink, 200000);
    best = std::max(best, operations / (Now() - start));
    Use(sink);
  }
  return best;
}

double MeasureBytesPerSecond(size_t footprint, double seconds) {
  std::vector<float> data(footprint / sizeof(float) / 64 * 64, 1.0f);
  const double bytes = static_cast<double>(data.size() * sizeof(float));
  // A turn is long enough for the clock, whatever the footprint.
  const int passes = static_cast<int>(std::max(1.0, 4e6 / bytes));
  double best = 0;
  const double end = Now() + seconds;
  for (int run = 0; run < 2 || Now() < end; ++run) {
    double start = Now();
    for (int pass = 0; pass < passes; ++pass) {
      float sink = 0;
      HWY_DYNAMIC_DISPATCH(Read)(data.data(), data.size(), &sink);
      Use(sink);
    }
    best = std::max(best, bytes * passes / (Now() - start));
    start = Now();
    for (int pass = 0; pass < passes; ++pass) HWY_DYNAMIC_DISPATCH(Update)(data.data(), data.size());
    best = std::max(best, 2 * bytes * passes / (Now() - start));
    Use(data[0]);
  }
  return best;
}

Roofline MeasureRoofline(int threads) {
  const size_t count = static_cast<size_t>(std::max(threads, 1));
  std::vector<double> flops(count);
  std::vector<std::vector<double>> rates(count, std::vector<double>(std::size(kFootprints)));
  // A phase begins when all have ended the one before, so that all threads do the same at once.
  constexpr int kPhases = 1 + static_cast<int>(std::size(kFootprints));
  std::vector<std::atomic<size_t>> arrived(kPhases);
  const auto wait = [&](int phase) {
    arrived[static_cast<size_t>(phase)].fetch_add(1);
    while (arrived[static_cast<size_t>(phase)].load() < count) std::this_thread::yield();
  };
  const auto work = [&](size_t thread) {
    wait(0);
    flops[thread] = MeasureFlopsPerSecond();
    for (size_t i = 0; i < std::size(kFootprints); ++i) {
      wait(static_cast<int>(i) + 1);
      rates[thread][i] = MeasureBytesPerSecond(kFootprints[i]);
    }
  };
  std::vector<std::thread> others;
  for (size_t thread = 1; thread < count; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();

  Roofline roofline;
  roofline.threads = static_cast<int>(count);
  for (const double rate : flops) roofline.flops_per_second += rate / static_cast<double>(count);
  for (size_t i = 0; i < std::size(kFootprints); ++i) {
    Roofline::Bandwidth bandwidth{static_cast<double>(kFootprints[i]), 0};
    for (const std::vector<double>& rate : rates) bandwidth.bytes_per_second += rate[i] / static_cast<double>(count);
    // Noise must not make a farther memory faster than a nearer one.
    if (!roofline.bandwidths.empty())
      bandwidth.bytes_per_second = std::min(bandwidth.bytes_per_second, roofline.bandwidths.back().bytes_per_second);
    roofline.bandwidths.push_back(bandwidth);
  }
  return roofline;
}

}  // namespace rivulet
#endif
