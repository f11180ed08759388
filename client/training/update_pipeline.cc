#include "client/training/update_pipeline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "federated/aggregation/fixed_point.h"
#include "federated/aggregation/shared_places.h"
#include "federated/mechanisms/scaling.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

Draws DrawsOf(const Task& task, Purpose purpose, size_t number) {
  const auto version = static_cast<uint32_t>(task.base_version);
  return {StreamFor(task.stream_key, purpose, version, task.ordinal), static_cast<uint32_t>(number)};
}

// Made updates of tasks that are trained together wait in so many bytes for their fold: a part of a processor's last
// cache, so that they are read from there.
constexpr size_t kMostWaitingBytes = size_t{4} << 20, kMostWaiting = 16;
// Values of a block: with its sums, it fits the fastest cache.
constexpr size_t kMeasuredBlock = 4096;

int64_t ElementsOf(const PartView& part) {
  int64_t elements = part.made == nullptr ? 0 : part.made->elements();
  for (const FloatRun& run : part.runs) elements += run.count;
  return elements;
}

// `part` null: the update has none.
Status CheckElements(std::string_view name, int64_t planned, const PartView* part) {
  const int64_t elements = part == nullptr ? 0 : ElementsOf(*part);
  if (elements == planned) return absl::OkStatus();
  return InvalidArgument("training has left {} elements of part '{}', and the plan has {}", elements, name, planned);
}

}  // namespace

// A part whose values were kept while they were measured: making them again would take longer than reading them.
class UpdatePipeline::MeasuredPart final : public MadePart {
 public:
  int64_t elements() const override { return std::ssize(values_); }
  size_t blocks() const override { return (values_.size() + kMeasuredBlock - 1) / kMeasuredBlock; }
  FloatRun Make(size_t block) const override {
    const size_t first = block * kMeasuredBlock, count = std::min(kMeasuredBlock, values_.size() - first);
    return {values_.data() + first, nullptr, static_cast<int64_t>(count), factor_};
  }
  // Call it before MeasureBlock of each block of `part`, in their order.
  void Begin(const MadePart& part) {
    values_.resize(static_cast<size_t>(part.elements()));
    state_ = {};
    measured_ = &part;
  }
  void MeasureBlock(size_t block) { AddSquares(measured_->Make(block), state_, values_.data() + state_.wire_index); }
  // The part with these values and squares, until they are used.
  const MadePart* measured() const { return measured_; }
  void Forget() { measured_ = nullptr; }
  double squares() const { return SumOfChains(state_.squares); }
  void Scale(float factor) { factor_ = factor; }

 private:
  std::vector<float> values_;
  FoldState state_;
  const MadePart* measured_ = nullptr;
  float factor_ = 1;
};

UpdatePipeline::UpdatePipeline() = default;
UpdatePipeline::~UpdatePipeline() = default;

std::string LeftOutName(std::string_view part) { return fmt::format("left_out/{}", part); }

StatusOr<std::unique_ptr<UpdatePipeline>> UpdatePipeline::Create(const Plan& plan) {
  std::unique_ptr<UpdatePipeline> pipeline(new UpdatePipeline);
  for (const PieceSpec& piece : plan.training().mechanisms) {
    RIVULET_ASSIGN_OR_RETURN(pipeline->mechanisms_.emplace_back(), Mechanism::Create(piece));
  }
  pipeline->transparent_ = pipeline->mechanisms_.empty();
  for (const PartSpec& spec : plan.aggregation().parts) {
    Part& part = pipeline->parts_.emplace_back();
    part.name = spec.name;
    part.elements = spec.elements;
    part.optional = spec.optional;
    RIVULET_ASSIGN_OR_RETURN(part.codec, Codec::Create(spec.codec, spec.elements, spec.codec_settings));
    pipeline->transparent_ &= part.codec->transparent();
    part.error_feedback = spec.error_feedback;
  }
  const auto left_alone = [](const Part& part) { return part.codec->transparent() && !part.error_feedback; };
  if (pipeline->mechanisms_.size() == 1 && std::ranges::all_of(pipeline->parts_, left_alone)) {
    pipeline->scaling_ = pipeline->mechanisms_[0]->scaling();
  }
  pipeline->scaled_.resize(pipeline->MostTogether());
  return pipeline;
}

// Error feedback of one more lane if needed: the existing lanes' values stay in place.
UpdatePipeline::LeftOut& UpdatePipeline::LeftOutOf(size_t lane) {
  while (left_out_.size() <= lane) {
    LeftOut& one = left_out_.emplace_back();
    for (const Part& part : parts_) {
      if (!part.error_feedback) continue;
      one.kept.push_back({LeftOutName(part.name), one.values.emplace_back(static_cast<size_t>(part.elements))});
    }
  }
  return left_out_[lane];
}

size_t UpdatePipeline::MostTogether() const {
  if (!scales()) return 1;
  size_t bytes = 0;
  for (const Part& part : parts_) bytes += static_cast<size_t>(part.elements) * sizeof(float);
  return std::clamp<size_t>(kMostWaitingBytes / std::max<size_t>(bytes, 1), 1, kMostWaiting);
}

std::span<const NamedState> UpdatePipeline::Begin(size_t lane) {
  const LeftOut& of = LeftOutOf(lane);
  for (const NamedState& left_out : of.kept) std::ranges::fill(left_out.values, 0.0f);
  return of.kept;
}

std::span<const NamedState> UpdatePipeline::kept(size_t lane) const {
  return lane < left_out_.size() ? std::span<const NamedState>(left_out_[lane].kept) : std::span<const NamedState>();
}

UpdatePipeline::Scaled& UpdatePipeline::ScaledAt(size_t number) {
  Scaled& scaled = scaled_[number % scaled_.size()];
  scaled.runs.resize(parts_.size());
  while (scaled.made.size() < parts_.size()) scaled.made.push_back(std::make_unique<MeasuredPart>());
  return scaled;
}

void UpdatePipeline::MeasureTogether(std::span<const std::span<const PartView>> updates) {
  // Unused measures are of parts that have changed.
  for (Scaled& scaled : scaled_) {
    for (const auto& made : scaled.made) made->Forget();
  }
  if (!scales() || updates.size() > scaled_.size()) return;
  for (size_t p = 0; p < parts_.size(); ++p) {
    std::vector<MeasuredPart*> measured;
    size_t blocks = 0;
    for (size_t i = 0; i < updates.size(); ++i) {
      const auto found = std::ranges::find(updates[i], parts_[p].name, &PartView::name);
      if (found == updates[i].end() || found->made == nullptr || found->made->elements() != parts_[p].elements) return;
      if (i > 0 && found->made->blocks() != blocks) return;
      blocks = found->made->blocks();
      measured.push_back(ScaledAt(next_scaled_ + i).made[p].get());
      measured.back()->Begin(*found->made);
    }
    for (size_t block = 0; block < blocks; ++block) {
      for (MeasuredPart* const part : measured) part->MeasureBlock(block);
    }
  }
}

// One pass measures, and the fold multiplies. Values in the trainer's memory are read there twice.
StatusOr<std::vector<PartView>> UpdatePipeline::Scale(std::span<const PartView> parts, Scalars& declared) {
  Scaled& scaled = ScaledAt(next_scaled_++);
  std::vector<PartView> views;
  std::vector<size_t> whose;  // of views, in parts_
  double squares = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const auto found = std::ranges::find(parts, parts_[p].name, &PartView::name);
    if (found == parts.end() && parts_[p].optional) continue;
    RIVULET_RETURN_IF_ERROR(
        CheckElements(parts_[p].name, parts_[p].elements, found == parts.end() ? nullptr : &*found));
    if (found->made != nullptr) {
      MeasuredPart& measured = *scaled.made[p];
      if (measured.measured() != found->made) {
        measured.Begin(*found->made);
        for (size_t block = 0; block < found->made->blocks(); ++block) measured.MeasureBlock(block);
      }
      measured.Forget();
      squares += measured.squares();
      views.push_back({.name = parts_[p].name, .made = &measured});
    } else {
      FoldState state;
      scaled.runs[p].assign(found->runs.begin(), found->runs.end());
      for (const FloatRun& run : scaled.runs[p]) AddSquares(run, state);
      squares += SumOfChains(state.squares);
      views.push_back({.name = parts_[p].name, .runs = scaled.runs[p]});
    }
    whose.push_back(p);
  }
  RIVULET_ASSIGN_OR_RETURN(const float factor, scaling_->FactorFor(std::sqrt(squares), declared));
  for (size_t i = 0; i < views.size(); ++i) {
    if (views[i].made != nullptr) scaled.made[whose[i]]->Scale(factor);
    for (FloatRun& run : scaled.runs[whose[i]]) run.factor = factor;
  }
  return views;
}

// Values are copied once if a mechanism or error feedback changes them: the trainer's memory is the model, and the
// client's state. A codec alone reads them in place.
StatusOr<std::vector<PartView>> UpdatePipeline::Apply(const Task& task, std::span<const PartView> parts,
                                                      Scalars& declared, size_t lane) {
  if (scales()) return Scale(parts, declared);
  std::vector<std::span<const FloatRun>> runs;
  std::vector<std::span<float>> values;
  for (Part& part : parts_) {
    const auto found = std::ranges::find(parts, part.name, &PartView::name);
    part.there = found != parts.end() || !part.optional;
    if (!part.there) {
      runs.emplace_back();
      continue;
    }
    RIVULET_RETURN_IF_ERROR(CheckElements(part.name, part.elements, found == parts.end() ? nullptr : &*found));
    runs.push_back(found->runs);
    if (mechanisms_.empty() && !part.error_feedback) continue;
    part.values.resize(static_cast<size_t>(part.elements));
    float* to = part.values.data();
    for (const FloatRun& run : found->runs) {
      CopyValues(run, 0, run.count, to);
      to += run.count;
    }
    values.emplace_back(part.values);
    part.run = {part.values.data(), nullptr, part.elements};
    runs.back() = {&part.run, 1};
  }
  for (size_t i = 0; i < mechanisms_.size(); ++i) {
    Draws draws = DrawsOf(task, Purpose::kNoise, i);
    RIVULET_RETURN_IF_ERROR(mechanisms_[i]->Apply(values, draws, declared));
  }
  auto left_out = LeftOutOf(lane).kept.begin();
  for (Part& part : parts_) {
    if (!part.error_feedback) continue;
    const std::span<float> before = (left_out++)->values;
    for (size_t i = 0; part.there && i < before.size(); ++i) part.values[i] += before[i];
  }
  left_out = LeftOutOf(lane).kept.begin();
  std::vector<PartView> views;
  for (size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    const std::span<float> leaves = part.error_feedback ? (left_out++)->values : std::span<float>();
    if (!part.there) continue;
    PartView& view = views.emplace_back(PartView{.name = part.name});
    if (part.codec->transparent()) {
      view.runs = runs[p];
      continue;
    }
    part.encoded.clear();
    Draws draws =
        part.codec->shares_places() ? DrawsOfPlaces(task.base_version, p) : DrawsOf(task, Purpose::kEncode, p);
    part.codec->Encode(runs[p], draws, part.encoded);
    view.data = std::as_bytes(std::span(part.encoded));
    std::array<float, 4096> block;
    for (size_t first = 0; first < leaves.size(); first += block.size()) {
      const size_t count = std::min(block.size(), leaves.size() - first);
      part.codec->Decode(view.data, static_cast<int64_t>(first), std::span(block).first(count));
      for (size_t i = 0; i < count; ++i) leaves[first + i] = part.values[first + i] - block[i];
    }
  }
  return views;
}

}  // namespace rivulet
