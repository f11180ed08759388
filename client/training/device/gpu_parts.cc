#include "client/training/device/gpu_parts.h"

#include <algorithm>
#include <utility>

#include "client/training/device/gpu_device_part.h"
#include "engine/gpu/gpu_alignment.h"

namespace rivulet {
// A part of the last results, folded in place.
class GpuParts::LanePart final : public GpuDevicePart {
 public:
  LanePart(GpuParts& parts, size_t part) : parts_(parts), part_(part), codec_(parts.pipeline_.spec(part).codec) {}
  std::string_view codec() const override { return codec_; }
  int64_t elements() const override { return parts_.pipeline_.spec(part_).elements; }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(stream(), parts_.pipeline_.SentRunsOf(part_), parts_.pipeline_.FormOf(part_), updates,
                             scales, value_bits, sign, sums, states);
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(stream(), parts_.pipeline_.SentRunsOf(part_), parts_.pipeline_.FormOf(part_), updates,
                             scales, value_bits, sign, sums, states);
  }
  GpuStream& stream() const override { return *parts_.stream_; }
  StatusOr<std::vector<Folded>> FoldThere(std::span<const int32_t> updates, std::span<const double> scales,
                                          int value_bits, int sign, bool narrow,
                                          std::span<FoldState> states) const override {
    return parts_.fold_.FoldThere(stream(), parts_.pipeline_.SentRunsOf(part_), parts_.pipeline_.FormOf(part_), updates,
                                  scales, value_bits, sign, narrow, states);
  }
  std::byte* sums_there() const override { return parts_.fold_.sums_there(); }
  Status AddSums(std::span<int64_t> sums) const override { return parts_.fold_.AddSums(stream(), sums); }
  Status AddSums(std::span<int32_t> sums) const override { return parts_.fold_.AddSums(stream(), sums); }

 private:
  GpuParts& parts_;
  const size_t part_;
  const std::string codec_;
};

GpuParts::GpuParts(const Plan& plan, const BufferTable& table, const GpuLaneMemory& memory,
                   std::shared_ptr<GpuDevice> device)
    : table_(table),
      memory_(memory),
      plan_(plan),
      parts_(PartPlacesOf(plan, table)),
      pipeline_(plan, parts_, memory, device),
      fold_(std::move(device)),
      can_stay_(pipeline_.known()) {
  for (const PartPlaces& part : parts_) {
    for (const RunPlace& place : part.places) {
      can_stay_ = can_stay_ && (place.less < 0 || table_.borrowed(place.less));
      for (const int buffer : {place.from, place.less}) {
        if (buffer >= 0 && !table_.borrowed(buffer)) sent_.push_back(buffer);
      }
    }
  }
  for (size_t part = 0; can_stay_ && part < parts_.size(); ++part) {
    left_.push_back(std::make_unique<LanePart>(*this, part));
  }
}

void GpuParts::Use(GpuStream& stream) {
  stream_ = &stream;
  pipeline_.Use(stream);
}

size_t GpuParts::FoldBytes() const {
  size_t bytes = 0;
  for (size_t part = 0; part < left_.size(); ++part) {
    bytes = std::max(bytes, GpuAligned(static_cast<size_t>(pipeline_.spec(part).elements) * sizeof(int64_t)));
  }
  return bytes - std::min(bytes, fold_.bytes());
}

size_t GpuParts::FoldLaneBytes() const {
  int64_t most = 0;
  for (const PartPlaces& part : parts_) {
    int64_t blocks = 0;
    for (const RunPlace& run : part.places) blocks += gpu::FoldBlocks(run.count);
    most = std::max(most, blocks);
  }
  // A tally per block and one for all, a scale and a number.
  return GpuAligned((static_cast<size_t>(most) + 1) * sizeof(gpu::FoldTally) + sizeof(double) + sizeof(int32_t));
}

GpuParts::~GpuParts() = default;

std::vector<PartView> GpuParts::Left(int number) const {
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    views.push_back({.name = parts_[part].name, .device_part = left_[part].get(), .number = number});
  }
  return views;
}

std::vector<PartView> GpuParts::Brought(const LaneTask& task, int number, const Scalars& declared) {
  if (runs_.size() <= static_cast<size_t>(number)) runs_.resize(static_cast<size_t>(number) + 1);
  std::vector<std::vector<FloatRun>>& runs = runs_[static_cast<size_t>(number)];
  runs.resize(parts_.size());
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    runs[part].clear();
    if (!IsIn(*plan_.aggregation().Find(parts_[part].name), declared)) continue;
    for (const RunPlace& place : parts_[part].places) {
      runs[part].push_back({OnHost(task, number, place.from, place.offset),
                            OnHost(task, number, place.less, place.offset), place.count});
    }
    views.push_back({.name = parts_[part].name, .runs = runs[part]});
  }
  return views;
}

// Null if there is no buffer. Borrowed buffers have never left the host.
const float* GpuParts::OnHost(const LaneTask& task, int number, int buffer, size_t offset) const {
  if (buffer < 0) return nullptr;
  const std::byte* const memory = buffer == BufferTable::kBaseParams ? task.base->arena().data()
                                  : table_.borrowed(buffer)
                                      ? task.broadcasts[static_cast<size_t>(buffer - table_.broadcast(0))]->data()
                                      : memory_.HostBuffer(buffer, number);
  return reinterpret_cast<const float*>(memory + offset);
}

}  // namespace rivulet
