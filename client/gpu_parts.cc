#include "client/gpu_parts.h"

#include <utility>

#include "engine/base/check.h"

namespace rivulet {

// A part of the last results, folded where it lies.
class GpuParts::LanePart final : public HeldPart {
 public:
  LanePart(GpuParts& parts, const PartPlaces& part) : parts_(parts), part_(part) {}
  int64_t elements() const override {
    int64_t elements = 0;
    for (const RunPlace& place : part_.places) elements += place.count;
    return elements;
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(*parts_.stream_, Runs(), updates, scales, value_bits, sign, sums, states);
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(*parts_.stream_, Runs(), updates, scales, value_bits, sign, sums, states);
  }

 private:
  std::vector<GpuRun> Runs() const {
    std::vector<GpuRun> runs;
    const std::span<const GpuOperand> buffers = parts_.memory_.buffers();
    for (const RunPlace& place : part_.places) {
      GpuOperand values = buffers[static_cast<size_t>(place.from)];
      values.data += place.offset;
      const std::byte* const minus =
          place.less < 0 ? nullptr : buffers[static_cast<size_t>(place.less)].data + place.offset;
      runs.push_back({values, minus, place.count});
    }
    return runs;
  }
  GpuParts& parts_;
  const PartPlaces& part_;
};

GpuParts::GpuParts(const Plan& plan, const BufferTable& table, const GpuLaneMemory& memory,
                   std::shared_ptr<GpuDevice> device)
    : table_(table), memory_(memory), parts_(PartPlacesOf(plan, table)), fold_(std::move(device)) {
  for (const PartPlaces& part : parts_) {
    left_.push_back(std::make_unique<LanePart>(*this, part));
    for (const RunPlace& place : part.places) {
      can_stay_ = can_stay_ && (place.less < 0 || table_.borrowed(place.less));
      for (const int buffer : {place.from, place.less}) {
        if (buffer >= 0 && !table_.borrowed(buffer)) sent_.push_back(buffer);
      }
    }
  }
}

GpuParts::~GpuParts() = default;

std::vector<PartView> GpuParts::Left(int number) const {
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    views.push_back({.name = parts_[part].name, .held = left_[part].get(), .number = number});
  }
  return views;
}

std::vector<PartView> GpuParts::Brought(const LaneTask& task, int number) {
  if (runs_.size() <= static_cast<size_t>(number)) runs_.resize(static_cast<size_t>(number) + 1);
  std::vector<std::vector<FloatRun>>& runs = runs_[static_cast<size_t>(number)];
  runs.resize(parts_.size());
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    runs[part].clear();
    for (const RunPlace& place : parts_[part].places) {
      runs[part].push_back({OnHost(task, number, place.from, place.offset),
                            OnHost(task, number, place.less, place.offset), place.count});
    }
    views.push_back({.name = parts_[part].name, .runs = runs[part]});
  }
  return views;
}

// Null of no buffer. What is borrowed has never left the host.
const float* GpuParts::OnHost(const LaneTask& task, int number, int buffer, size_t offset) const {
  if (buffer < 0) return nullptr;
  const std::byte* const memory = buffer == BufferTable::kBaseParams ? task.base->arena().data()
                                  : table_.borrowed(buffer)
                                      ? task.broadcasts[static_cast<size_t>(buffer - table_.broadcast(0))]->data()
                                      : memory_.HostBuffer(buffer, number);
  return reinterpret_cast<const float*>(memory + offset);
}

}  // namespace rivulet
