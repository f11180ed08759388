#include "client/update_pipeline.h"

#include <algorithm>
#include <array>

#include "federated/random/streams.h"

namespace rivulet {
namespace {

Draws DrawsOf(const Task& task, Purpose purpose, size_t number) {
  const auto version = static_cast<uint32_t>(task.base_version);
  return {StreamFor(task.stream_key, purpose, version, task.ordinal), static_cast<uint32_t>(number)};
}

}  // namespace

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
    // A name that no vector of a plan has.
    if (spec.error_feedback) {
      part.left_out.resize(static_cast<size_t>(spec.elements));
      pipeline->kept_.push_back({fmt::format("left_out/{}", spec.name), part.left_out});
    }
  }
  return pipeline;
}

std::span<const NamedState> UpdatePipeline::Begin() {
  for (const NamedState& left_out : kept_) std::ranges::fill(left_out.values, 0.0f);
  return kept_;
}

// Values are copied once, where a mechanism or what was left out is to change them: the trainer's memory is the model,
// and what lies there is what a client keeps. A codec alone reads them where they are.
StatusOr<std::vector<PartView>> UpdatePipeline::Apply(const Task& task, std::span<const PartView> parts,
                                                      Scalars& declared) {
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
    if (mechanisms_.empty() && part.left_out.empty()) continue;
    part.values.resize(static_cast<size_t>(elements));
    float* to = part.values.data();
    EachValue(found->runs, [&](float value) { *to++ = value; });
    values.emplace_back(part.values);
    part.run = {part.values.data(), nullptr, elements};
    runs.back() = {&part.run, 1};
  }
  for (size_t i = 0; i < mechanisms_.size(); ++i) {
    Draws draws = DrawsOf(task, Purpose::kNoise, i);
    RIVULET_RETURN_IF_ERROR(mechanisms_[i]->Apply(values, draws, declared));
  }
  for (Part& part : parts_) {
    if (!part.there) continue;
    for (size_t i = 0; i < part.left_out.size(); ++i) part.values[i] += part.left_out[i];
  }
  std::vector<PartView> views;
  for (size_t p = 0; p < parts_.size(); ++p) {
    Part& part = parts_[p];
    if (!part.there) continue;
    PartView& view = views.emplace_back(PartView{.name = part.name});
    if (part.codec->transparent()) {
      view.runs = runs[p];
      continue;
    }
    part.encoded.clear();
    Draws draws = DrawsOf(task, Purpose::kEncode, p);
    part.codec->Encode(runs[p], draws, part.encoded);
    view.data = std::as_bytes(std::span(part.encoded));
    std::array<float, 4096> block;
    for (size_t first = 0; first < part.left_out.size(); first += block.size()) {
      const size_t count = std::min(block.size(), part.left_out.size() - first);
      part.codec->Decode(view.data, static_cast<int64_t>(first), std::span(block).first(count));
      for (size_t i = 0; i < count; ++i) part.left_out[first + i] = part.values[first + i] - block[i];
    }
  }
  return views;
}

}  // namespace rivulet
