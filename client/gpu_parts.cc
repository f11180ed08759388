#include "client/gpu_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/gpu_held_part.h"
#include "engine/base/check.h"
#include "engine/kernels/cuda/clip.h"

namespace rivulet {
namespace {

struct KnownCodec {
  std::string_view name;
  gpu::FoldCodec fold;
};
constexpr KnownCodec kCodecs[] = {
    {"f32", gpu::FoldCodec::kFloat32}, {"f16", gpu::FoldCodec::kFloat16}, {"bf16", gpu::FoldCodec::kBFloat16}};

enum ClippingRegion : size_t { kSquares, kFactors };  // a lane's; of all lanes

}  // namespace

// A part of the last results, folded where it lies.
class GpuParts::LanePart final : public GpuHeldPart {
 public:
  LanePart(GpuParts& parts, const PartPlaces& part, std::string codec, gpu::FoldCodec fold)
      : parts_(parts), part_(part), codec_(std::move(codec)), fold_(fold) {}
  std::string_view codec() const override { return codec_; }
  int64_t elements() const override {
    int64_t elements = 0;
    for (const RunPlace& place : part_.places) elements += place.count;
    return elements;
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(*parts_.stream_, parts_.RunsOf(part_), Form(), updates, scales, value_bits, sign, sums,
                             states);
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
    return parts_.fold_.Fold(*parts_.stream_, parts_.RunsOf(part_), Form(), updates, scales, value_bits, sign, sums,
                             states);
  }
  GpuStream& stream() const override { return *parts_.stream_; }
  StatusOr<std::vector<Folded>> FoldThere(std::span<const int32_t> updates, std::span<const double> scales,
                                          int value_bits, int sign, bool narrow,
                                          std::span<FoldState> states) const override {
    return parts_.fold_.FoldThere(stream(), parts_.RunsOf(part_), Form(), updates, scales, value_bits, sign, narrow,
                                  states);
  }
  std::byte* sums_there() const override { return parts_.fold_.sums_there(); }
  Status AddSums(std::span<int64_t> sums) const override { return parts_.fold_.AddSums(stream(), sums); }
  Status AddSums(std::span<int32_t> sums) const override { return parts_.fold_.AddSums(stream(), sums); }

 private:
  GpuFoldForm Form() const {
    GpuFoldForm form{.codec = fold_};
    if (parts_.clip_ > 0) form.factors = reinterpret_cast<const double*>(parts_.Factors());
    return form;
  }
  GpuParts& parts_;
  const PartPlaces& part_;
  const std::string codec_;
  const gpu::FoldCodec fold_;
};

std::vector<GpuRun> GpuParts::RunsOf(const PartPlaces& part) const {
  std::vector<GpuRun> runs;
  const std::span<const GpuOperand> buffers = memory_.buffers();
  for (const RunPlace& place : part.places) {
    GpuOperand values = buffers[static_cast<size_t>(place.from)];
    values.data += place.offset;
    const std::byte* const minus =
        place.less < 0 ? nullptr : buffers[static_cast<size_t>(place.less)].data + place.offset;
    runs.push_back({values, minus, place.count});
  }
  return runs;
}

GpuParts::GpuParts(const Plan& plan, const BufferTable& table, const GpuLaneMemory& memory,
                   std::shared_ptr<GpuDevice> device)
    : table_(table),
      memory_(memory),
      device_(std::move(device)),
      plan_(plan),
      parts_(PartPlacesOf(plan, table)),
      fold_(device_) {
  for (const PieceSpec& piece : plan.training().mechanisms) {
    const auto norm = piece.settings.find("norm");
    const bool clips = piece.name == "clip" && clip_ == 0 && norm != piece.settings.end();
    can_stay_ = can_stay_ && clips;
    if (clips) clip_ = std::get<double>(norm->second);
  }
  for (const PartPlaces& part : parts_) {
    const auto spec = std::ranges::find(plan.aggregation().parts, part.name, &PartSpec::name);
    const std::string codec = spec == plan.aggregation().parts.end() ? "" : spec->codec;
    const auto known = std::ranges::find(kCodecs, codec, &KnownCodec::name);
    can_stay_ = can_stay_ && known != std::end(kCodecs) && !spec->error_feedback && !spec->only_where;
    left_.push_back(std::make_unique<LanePart>(*this, part, codec,
                                               known == std::end(kCodecs) ? gpu::FoldCodec::kFloat32 : known->fold));
    for (const RunPlace& place : part.places) {
      can_stay_ = can_stay_ && (place.less < 0 || table_.borrowed(place.less));
      for (const int buffer : {place.from, place.less}) {
        if (buffer >= 0 && !table_.borrowed(buffer)) sent_.push_back(buffer);
      }
    }
  }
}

std::byte* GpuParts::Factors() const { return clipping_memory_.data() + clipping_.shared_offset(kFactors); }

Status GpuParts::Measure(int lanes) {
  if (clip_ == 0) return absl::OkStatus();
  std::vector<GpuRun> runs;
  for (const PartPlaces& part : parts_) {
    for (const GpuRun& run : RunsOf(part)) runs.push_back(run);
  }
  int64_t blocks = 0;
  for (const GpuRun& run : runs) blocks += gpu::SquaresBlocks(run.count);
  const size_t squares_bytes[] = {static_cast<size_t>(blocks) * sizeof(double)};
  const size_t factors_bytes[] = {0, static_cast<size_t>(lanes) * sizeof(double)};
  if (clipping_.Grow(lanes, squares_bytes, factors_bytes)) {
    clipping_memory_ = GpuMemory();
    auto memory = device_->Allocate(clipping_.bytes(), "the norms of updates");
    if (!memory.ok()) {
      clipping_ = LaneRegions();
      return memory.status();
    }
    clipping_memory_ = *std::move(memory);
  }
  const GpuOperand squares = {clipping_memory_.data() + clipping_.offset(kSquares), clipping_.stride(kSquares)};
  const gpu::Lanes all = {lanes, nullptr};
  size_t first = 0;
  for (const GpuRun& run : runs) {
    RIVULET_RETURN_IF_ERROR(stream_->Launch(
        "sum_squares",
        gpu::SumSquaresArguments{SpanOf<const float>(run.values), reinterpret_cast<const float*>(run.minus),
                                 SpanOf<double>(squares, first), run.count, all}));
    first += static_cast<size_t>(gpu::SquaresBlocks(run.count)) * sizeof(double);
  }
  return stream_->Launch("clip_factors",
                         gpu::ClipFactorsArguments{SpanOf<const double>(squares), reinterpret_cast<double*>(Factors()),
                                                   blocks, clip_, all});
}

GpuParts::~GpuParts() = default;

std::vector<PartView> GpuParts::Left(int number) const {
  std::vector<PartView> views;
  for (size_t part = 0; part < parts_.size(); ++part) {
    views.push_back({.name = parts_[part].name, .held = left_[part].get(), .number = number});
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
