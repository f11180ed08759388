#include "client/training/device/gpu_fold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "engine/kernels/cuda/fold.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

int64_t BlocksOf(std::span<const GpuRun> runs) {
  int64_t blocks = 0;
  for (const GpuRun& run : runs) blocks += gpu::FoldBlocks(run.count);
  return blocks;
}

int64_t ValuesOf(std::span<const GpuRun> runs) {
  int64_t values = 0;
  for (const GpuRun& run : runs) values += run.count;
  return values;
}

}  // namespace

StatusOr<std::vector<DevicePart::Folded>> GpuFold::Fold(GpuStream& stream, std::span<const GpuRun> runs,
                                                        const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                        std::span<const double> scales, int value_bits, int sign,
                                                        std::span<int64_t> sums, std::span<FoldState> states) {
  return FoldInto(stream, runs, form, lanes, scales, value_bits, sign, sums, states);
}

StatusOr<std::vector<DevicePart::Folded>> GpuFold::Fold(GpuStream& stream, std::span<const GpuRun> runs,
                                                        const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                        std::span<const double> scales, int value_bits, int sign,
                                                        std::span<int32_t> sums, std::span<FoldState> states) {
  return FoldInto(stream, runs, form, lanes, scales, value_bits, sign, sums, states);
}

Status GpuFold::Reserve(size_t lanes, size_t sum_bytes, int64_t blocks) {
  std::vector<size_t> bytes(kRegions);
  bytes[kSums] = sum_bytes;
  bytes[kScales] = lanes * sizeof(double);
  bytes[kIds] = lanes * sizeof(int32_t);
  bytes[kTotals] = lanes * sizeof(gpu::FoldTally);
  if (on_host_.Grow(1, {}, bytes)) {
    host_memory_ = PinnedMemory();
    auto memory = device_->AllocatePinned(on_host_.bytes());
    if (!memory.ok()) {
      on_host_ = LaneRegions();
      return memory.status();
    }
    host_memory_ = *std::move(memory);
  }
  bytes[kTallies] = lanes * static_cast<size_t>(blocks) * sizeof(gpu::FoldTally);
  if (!on_device_.Grow(1, {}, bytes)) return absl::OkStatus();
  device_memory_ = GpuMemory();
  auto memory = device_->Allocate(on_device_.bytes(), "the sums of a fold");
  if (!memory.ok()) {
    on_device_ = LaneRegions();
    return memory.status();
  }
  device_memory_ = *std::move(memory);
  return absl::OkStatus();
}

Status GpuFold::BringLanes(GpuStream& stream, std::span<const int32_t> lanes, std::span<const double> scales) {
  std::ranges::copy(lanes, OnHost<int32_t>(kIds));
  std::ranges::copy(scales, OnHost<double>(kScales));
  RIVULET_RETURN_IF_ERROR(stream.ToDevice(OnDevice<int32_t>(kIds), OnHost<int32_t>(kIds), lanes.size_bytes()));
  return stream.ToDevice(OnDevice<double>(kScales), OnHost<double>(kScales), scales.size_bytes());
}

template <typename Sum>
Status GpuFold::Launch(GpuStream& stream, std::span<const GpuRun> runs, const GpuFoldForm& form, size_t lanes,
                       int value_bits, int sign, int64_t blocks) {
  gpu::FoldTally* tallies = blocks > 0 ? OnDevice<gpu::FoldTally>(kTallies) : nullptr;
  int64_t first = 0;
  for (const GpuRun& run : runs) {
    gpu::FoldValuesArguments<Sum> arguments{};
    arguments.values = {reinterpret_cast<const float*>(run.values.data), run.values.lane_stride};
    arguments.minus = reinterpret_cast<const float*>(run.minus);
    arguments.sums = OnDevice<Sum>(kSums) + first;
    arguments.scales = OnDevice<double>(kScales);
    arguments.factors = form.factors;
    arguments.codec = form.codec;
    arguments.tallies = tallies;
    arguments.tally_stride = blocks;
    arguments.count = run.count;
    arguments.first = first;
    arguments.bound_bits = std::bit_cast<int32_t>(std::ldexp(1.0f, value_bits));
    arguments.sign = sign;
    arguments.lanes = {static_cast<int32_t>(lanes), OnDevice<int32_t>(kIds)};
    RIVULET_RETURN_IF_ERROR(
        stream.Launch(std::is_same_v<Sum, int64_t> ? "fold_values_64" : "fold_values_32", arguments));
    first += run.count;
    if (tallies != nullptr) tallies += gpu::FoldBlocks(run.count);
  }
  return absl::OkStatus();
}

StatusOr<float> GpuFold::ValueAt(GpuStream& stream, std::span<const GpuRun> runs, const GpuFoldForm& form, int32_t lane,
                                 int64_t index) {
  for (const GpuRun& run : runs) {
    if (index >= run.count) {
      index -= run.count;
      continue;
    }
    float value = 0, minus = 0;
    double factor = 1;
    const auto at = static_cast<size_t>(index) * sizeof(float);
    const std::byte* const values = run.values.data + static_cast<size_t>(lane) * run.values.lane_stride;
    RIVULET_RETURN_IF_ERROR(stream.ToHost(&value, values + at, sizeof(value)));
    if (run.minus != nullptr) RIVULET_RETURN_IF_ERROR(stream.ToHost(&minus, run.minus + at, sizeof(minus)));
    if (form.factors != nullptr) RIVULET_RETURN_IF_ERROR(stream.ToHost(&factor, form.factors + lane, sizeof(factor)));
    RIVULET_RETURN_IF_ERROR(stream.Wait());
    if (run.minus != nullptr) value -= minus;
    if (factor != 1) value = static_cast<float>(value * factor);
    if (form.codec == gpu::FoldCodec::kFloat16) return static_cast<float>(float16(value));
    if (form.codec == gpu::FoldCodec::kBFloat16) return static_cast<float>(bfloat16(value));
    return value;
  }
  return Internal("a fold reported value {} beyond its runs", index);
}

template <typename Sum>
StatusOr<std::vector<DevicePart::Folded>> GpuFold::FoldInto(GpuStream& stream, std::span<const GpuRun> runs,
                                                            const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                            std::span<const double> scales, int value_bits, int sign,
                                                            std::span<Sum> sums, std::span<FoldState> states) {
  RIVULET_CHECK(std::ssize(sums) == ValuesOf(runs));
  if (lanes.empty()) return std::vector<DevicePart::Folded>();
  RIVULET_ASSIGN_OR_RETURN(
      std::vector<DevicePart::Folded> folded,
      FoldOnDevice<Sum>(stream, runs, form, lanes, scales, value_bits, sign, /*bring=*/true, states));
  AddBrought(sums);
  return folded;
}

template <typename Sum>
StatusOr<std::vector<DevicePart::Folded>> GpuFold::FoldOnDevice(GpuStream& stream, std::span<const GpuRun> runs,
                                                                const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                                std::span<const double> scales, int value_bits,
                                                                int sign, bool bring, std::span<FoldState> states) {
  RIVULET_CHECK(scales.size() == lanes.size() && states.size() == lanes.size());
  const int64_t blocks = BlocksOf(runs), values = ValuesOf(runs);
  const size_t sum_bytes = static_cast<size_t>(values) * sizeof(Sum);
  RIVULET_RETURN_IF_ERROR(Reserve(lanes.size(), sum_bytes, blocks));
  const auto bring_sums = [&]() -> Status {
    return bring ? stream.ToHost(OnHost<Sum>(kSums), OnDevice<Sum>(kSums), sum_bytes) : absl::OkStatus();
  };
  // Enqueued work uses this memory, so it is awaited even if some work could not be enqueued.
  const auto work = [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(stream.Fill(OnDevice<Sum>(kSums), 0, sum_bytes));
    if (lanes.empty()) return bring_sums();
    RIVULET_RETURN_IF_ERROR(BringLanes(stream, lanes, scales));
    RIVULET_RETURN_IF_ERROR(Launch<Sum>(stream, runs, form, lanes.size(), value_bits, sign, blocks));
    RIVULET_RETURN_IF_ERROR(stream.Launch(
        "fold_tallies", gpu::FoldTalliesArguments{OnDevice<gpu::FoldTally>(kTallies), OnDevice<gpu::FoldTally>(kTotals),
                                                  blocks, static_cast<int32_t>(lanes.size())}));
    RIVULET_RETURN_IF_ERROR(stream.ToHost(OnHost<gpu::FoldTally>(kTotals), OnDevice<gpu::FoldTally>(kTotals),
                                          lanes.size() * sizeof(gpu::FoldTally)));
    return bring_sums();
  };
  const auto wait = [&stream](Status status) {
    Status ran = stream.Wait();
    return status.ok() ? ran : status;
  };
  RIVULET_RETURN_IF_ERROR(wait(work()));

  std::vector<DevicePart::Folded> folded(lanes.size());
  std::vector<int32_t> bad;
  std::vector<double> bad_scales;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const gpu::FoldTally& tally = OnHost<gpu::FoldTally>(kTotals)[i];
    folded[i].taken = std::min(tally.first_bad, values);
    states[i].wire_index += folded[i].taken;
    states[i].squares[0] += tally.squares;
    states[i].nonzeros += tally.nonzeros;
    states[i].lost += tally.lost;
    if (tally.first_bad == INT64_MAX) continue;
    bad.push_back(lanes[i]);
    bad_scales.push_back(scales[i]);
  }
  if (bad.empty()) return folded;
  const auto take_away = [&]() -> Status {
    RIVULET_RETURN_IF_ERROR(BringLanes(stream, bad, bad_scales));
    RIVULET_RETURN_IF_ERROR(Launch<Sum>(stream, runs, form, bad.size(), value_bits, -sign, 0));
    return bring_sums();
  };
  RIVULET_RETURN_IF_ERROR(wait(take_away()));
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (folded[i].taken == values) continue;
    RIVULET_ASSIGN_OR_RETURN(folded[i].bad, ValueAt(stream, runs, form, lanes[i], folded[i].taken));
  }
  return folded;
}

template <typename Sum>
Status GpuFold::BringAndAdd(GpuStream& stream, std::span<Sum> sums) {
  const Status put = stream.ToHost(OnHost<Sum>(kSums), OnDevice<Sum>(kSums), sums.size_bytes());
  const Status ran = stream.Wait();
  RIVULET_RETURN_IF_ERROR(put);
  RIVULET_RETURN_IF_ERROR(ran);
  AddBrought(sums);
  return absl::OkStatus();
}

template <typename Sum>
void GpuFold::AddBrought(std::span<Sum> sums) const {
  using Bits = std::make_unsigned_t<Sum>;
  const Sum* const more = OnHost<Sum>(kSums);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<Sum>(static_cast<Bits>(sums[i]) + static_cast<Bits>(more[i]));
  }
}

StatusOr<std::vector<DevicePart::Folded>> GpuFold::FoldThere(GpuStream& stream, std::span<const GpuRun> runs,
                                                             const GpuFoldForm& form, std::span<const int32_t> lanes,
                                                             std::span<const double> scales, int value_bits, int sign,
                                                             bool narrow, std::span<FoldState> states) {
  return narrow ? FoldOnDevice<int32_t>(stream, runs, form, lanes, scales, value_bits, sign, /*bring=*/false, states)
                : FoldOnDevice<int64_t>(stream, runs, form, lanes, scales, value_bits, sign, /*bring=*/false, states);
}

Status GpuFold::AddSums(GpuStream& stream, std::span<int64_t> sums) { return BringAndAdd(stream, sums); }
Status GpuFold::AddSums(GpuStream& stream, std::span<int32_t> sums) { return BringAndAdd(stream, sums); }

}  // namespace rivulet
