#include "client/training/update_pipeline.h"

#include <algorithm>
#include <array>

#include "federated/aggregation/shared_places.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

Draws DrawsOf(const Task& task, Purpose purpose, size_t number) {
  const auto version = static_cast<uint32_t>(task.base_version);
  return {StreamFor(task.stream_key, purpose, version, task.ordinal), static_cast<uint32_t>(number)};
}

// Blocks of a fixed length, which compilers vectorise.
void CopyValues(const FloatRun& run, float* __restrict to) {
  if (run.minus == nullptr) {
    std::copy_n(run.values, run.count, to);
    return;
  }
  constexpr int64_t kBlock = 16;
  int64_t first = 0;
  for (; first + kBlock <= run.count; first += kBlock) {
    const float *const values = run.values + first, *const minus = run.minus + first;
    for (int64_t i = 0; i < kBlock; ++i) to[first + i] = values[i] - minus[i];
  }
  for (; first < run.count; ++first) to[first] = run.values[first] - run.minus[first];
}

}  // namespace

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
  return pipeline;
}

// Of as many lanes as are asked for: each lane's values stay where they are when more come.
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

std::span<const NamedState> UpdatePipeline::Begin(size_t lane) {
  const LeftOut& of = LeftOutOf(lane);
  for (const NamedState& left_out : of.kept) std::ranges::fill(left_out.values, 0.0f);
  return of.kept;
}

bool UpdatePipeline::repeatable() const {
  return std::ranges::all_of(mechanisms_, [](const auto& mechanism) { return mechanism->repeatable(); });
}

std::span<const NamedState> UpdatePipeline::kept(size_t lane) const {
  return lane < left_out_.size() ? std::span<const NamedState>(left_out_[lane].kept) : std::span<const NamedState>();
}

// Values are copied once, where a mechanism or what was left out is to change them: the trainer's memory is the model,
// and what lies there is what a client keeps. A codec alone reads them where they are.
StatusOr<std::vector<PartView>> UpdatePipeline::Apply(const Task& task, std::span<const PartView> parts,
                                                      Scalars& declared, size_t lane) {
  std::vector<std::span<const FloatRun>> runs;
  std::vector<std::span<float>> values;
  for (Part& part : parts_) {
    const auto found = std::ranges::find(parts, part.name, &PartView::name);
    part.there = found != parts.end() || !part.optional;
    if (!part.there) {
      runs.emplace_back();
      continue;
    }
    int64_t elements = 0;
    if (found != parts.end()) {
      for (const FloatRun& run : found->runs) elements += run.count;
    }
    if (elements != part.elements) {
      return InvalidArgument("training has left {} elements of part '{}', and the plan has {}", elements, part.name,
                             part.elements);
    }
    runs.push_back(found->runs);
    if (mechanisms_.empty() && !part.error_feedback) continue;
    part.values.resize(static_cast<size_t>(elements));
    float* to = part.values.data();
    for (const FloatRun& run : found->runs) {
      CopyValues(run, to);
      to += run.count;
    }
    values.emplace_back(part.values);
    part.run = {part.values.data(), nullptr, elements};
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
