#include "client/training/device/gpu_codec.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "client/training/device/gpu_lane_memory.h"
#include "engine/gpu/gpu_alignment.h"
#include "federated/codecs/codec.h"
#include "federated/codecs/eden_levels.h"
#include "federated/codecs/qsgd.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

constexpr auto kPurpose = static_cast<uint32_t>(Purpose::kEncode);

struct InFold {
  std::string_view name;
  gpu::FoldCodec fold;
};
constexpr InFold kInFold[] = {
    {"f32", gpu::FoldCodec::kFloat32}, {"f16", gpu::FoldCodec::kFloat16}, {"bf16", gpu::FoldCodec::kBFloat16}};

struct Scaled {
  std::string_view name;
  int32_t block, levels;
  bool by_norm;
};
constexpr auto kNormBlock = static_cast<int32_t>(kQsgdValues);
constexpr Scaled kScaled[] = {{"int4", 64, 7, false},           {"int8", 256, 127, false},
                              {"qsgd2", kNormBlock, 1, true},   {"qsgd4", kNormBlock, 7, true},
                              {"qsgd8", kNormBlock, 127, true}, {"elias1", kNormBlock, 1, true},
                              {"elias7", kNormBlock, 7, true},  {"elias127", kNormBlock, 127, true}};

constexpr std::string_view kEdens[] = {"eden1", "eden2", "eden3", "eden4"};

// Places in scratch memory, one after another.
class Scratch {
 public:
  explicit Scratch(GpuOperand all = {}) : all_(all) {}
  template <typename T>
  gpu::LaneSpan<T> Next(int64_t count) {
    const size_t at = bytes_;
    bytes_ += GpuAligned(static_cast<size_t>(count) * sizeof(T));
    return all_.data == nullptr ? gpu::LaneSpan<T>{} : SpanOf<T>(all_, at);
  }
  size_t bytes() const { return bytes_; }

 private:
  const GpuOperand all_;
  size_t bytes_ = 0;
};

struct ScaledScratch {
  explicit ScaledScratch(Scratch& scratch, int64_t blocks)
      : scales(scratch.Next<float>(blocks)), counts(scratch.Next<int64_t>(blocks + 1)) {}
  gpu::LaneSpan<float> scales;
  gpu::LaneSpan<int64_t> counts;
};
struct TopKScratch {
  explicit TopKScratch(Scratch& scratch, int64_t count)
      : bins(scratch.Next<uint32_t>(gpu::kTopKBins)),
        cut(scratch.Next<gpu::TopKCut>(1)),
        counts(scratch.Next<int64_t>(gpu::TopKBlocks(count) + 1)) {}
  gpu::LaneSpan<uint32_t> bins;
  gpu::LaneSpan<gpu::TopKCut> cut;
  gpu::LaneSpan<int64_t> counts;
};
struct EdenScratch {
  explicit EdenScratch(Scratch& scratch, int64_t count)
      : squares(scratch.Next<double>(gpu::EdenBlocks(count))), scales(scratch.Next<float>(gpu::EdenBlocks(count))) {}
  gpu::LaneSpan<double> squares;
  gpu::LaneSpan<float> scales;
};

}  // namespace

std::optional<GpuCodec> GpuCodec::Of(const PartSpec& part) {
  GpuCodec codec;
  codec.count_ = part.elements;
  const auto in_fold = std::ranges::find(kInFold, part.codec, &InFold::name);
  if (in_fold != std::end(kInFold)) {
    codec.fold_ = in_fold->fold;
    return codec;
  }
  if (part.elements == 0) return std::nullopt;
  if (const auto scaled = std::ranges::find(kScaled, part.codec, &Scaled::name); scaled != std::end(kScaled)) {
    codec.kind_ = Kind::kScaled;
    codec.block_ = scaled->block;
    codec.levels_ = scaled->levels;
    codec.by_norm_ = scaled->by_norm;
    return codec;
  }
  if (const auto eden = std::ranges::find(kEdens, part.codec); eden != std::end(kEdens)) {
    codec.kind_ = Kind::kEden;
    codec.bits_ = 1 + static_cast<int32_t>(eden - std::begin(kEdens));
    return codec;
  }
  if (part.codec == "sign") {
    codec.kind_ = Kind::kSign;
    return codec;
  }
  if (part.codec != "top_k" && part.codec != "random_k") return std::nullopt;
  const auto made = Codec::Create(part.codec, part.elements, part.codec_settings);
  if (!made.ok()) return std::nullopt;
  codec.kind_ = part.codec == "top_k" ? Kind::kTopK : Kind::kRandomK;
  codec.k_ = (*made)->MaxBytes() / static_cast<int64_t>(sizeof(uint32_t) + sizeof(float));  // an index and a value each
  return codec;
}

int64_t GpuCodec::padded_values() const { return kind_ == Kind::kEden ? gpu::EdenPadded(count_) : count_; }

size_t GpuCodec::ScratchBytes() const {
  Scratch scratch;
  switch (kind_) {
    case Kind::kInFold:
    case Kind::kRandomK:
      break;
    case Kind::kScaled:
      ScaledScratch(scratch, blocks());
      break;
    case Kind::kSign:
      scratch.Next<float>(1);
      break;
    case Kind::kTopK:
      TopKScratch(scratch, count_);
      break;
    case Kind::kEden:
      EdenScratch(scratch, count_);
      break;
  }
  return scratch.bytes();
}

Status GpuCodec::Encode(GpuStream& stream, const GpuSentPart& part) const {
  switch (kind_) {
    case Kind::kInFold:
      return absl::OkStatus();
    case Kind::kScaled:
      return EncodeScaled(stream, part);
    case Kind::kSign:
      return EncodeSign(stream, part);
    case Kind::kTopK:
      return EncodeTopK(stream, part);
    case Kind::kRandomK:
      return EncodeRandomK(stream, part);
    case Kind::kEden:
      return EncodeEden(stream, part);
  }
  return absl::OkStatus();
}

Status GpuCodec::EncodeScaled(GpuStream& stream, const GpuSentPart& part) const {
  Scratch scratch(part.scratch);
  const ScaledScratch at(scratch, blocks());
  const gpu::Lanes all = {part.lanes, nullptr};
  const gpu::ScaledCodecArguments arguments = {SpanOf<float>(part.values),
                                               at.scales,
                                               at.counts,
                                               count_,
                                               block_,
                                               levels_,
                                               by_norm_,
                                               part.streams,
                                               kPurpose,
                                               part.op,
                                               all};
  RIVULET_RETURN_IF_ERROR(stream.Launch("codec_scales", arguments));
  RIVULET_RETURN_IF_ERROR(stream.Launch("codec_places", gpu::CodecPlacesArguments{at.counts, blocks(), all}));
  return stream.Launch("codec_levels", arguments);
}

Status GpuCodec::EncodeSign(GpuStream& stream, const GpuSentPart& part) const {
  Scratch scratch(part.scratch);
  const gpu::SignCodecArguments arguments = {
      SpanOf<float>(part.values), scratch.Next<float>(1), count_, {part.lanes, nullptr}};
  RIVULET_RETURN_IF_ERROR(stream.Launch("sign_scale", arguments));
  return stream.Launch("sign_values", arguments);
}

Status GpuCodec::EncodeTopK(GpuStream& stream, const GpuSentPart& part) const {
  Scratch scratch(part.scratch);
  const TopKScratch at(scratch, count_);
  const gpu::Lanes all = {part.lanes, nullptr};
  gpu::TopKArguments arguments = {SpanOf<float>(part.values), at.bins, at.cut, at.counts, count_, k_, false, all};
  for (const bool lower : {false, true}) {
    arguments.lower = lower;
    for (const char* const kernel : {"top_k_clear", "top_k_count", "top_k_cut"}) {
      RIVULET_RETURN_IF_ERROR(stream.Launch(kernel, arguments));
    }
  }
  RIVULET_RETURN_IF_ERROR(stream.Launch("top_k_ties", arguments));
  RIVULET_RETURN_IF_ERROR(
      stream.Launch("codec_places", gpu::CodecPlacesArguments{at.counts, gpu::TopKBlocks(count_), all}));
  return stream.Launch("top_k_keep", arguments);
}

Status GpuCodec::EncodeRandomK(GpuStream& stream, const GpuSentPart& part) const {
  return stream.Launch(
      "random_k", gpu::RandomKArguments{
                      SpanOf<float>(part.values), count_, k_, part.streams, kPurpose, part.op, {part.lanes, nullptr}});
}

Status GpuCodec::EncodeEden(GpuStream& stream, const GpuSentPart& part) const {
  Scratch scratch(part.scratch);
  const EdenScratch at(scratch, count_);
  gpu::EdenArguments arguments = {};
  arguments.values = SpanOf<float>(part.values);
  arguments.squares = at.squares;
  arguments.scales = at.scales;
  arguments.count = count_;
  arguments.bits = bits_;
  std::ranges::copy(EdenLevels(bits_), arguments.levels);
  arguments.streams = part.streams;
  arguments.purpose = kPurpose;
  arguments.op = part.op;
  arguments.lanes = {part.lanes, nullptr};
  const auto transform = [&](uint32_t turn) -> Status {
    arguments.turn = turn;
    RIVULET_RETURN_IF_ERROR(stream.Launch("eden_near", arguments));
    return stream.Launch("eden_far", arguments);
  };
  RIVULET_RETURN_IF_ERROR(stream.Launch("eden_norms", arguments));
  RIVULET_RETURN_IF_ERROR(transform(0));
  RIVULET_RETURN_IF_ERROR(transform(1));
  RIVULET_RETURN_IF_ERROR(stream.Launch("eden_levels", arguments));
  RIVULET_RETURN_IF_ERROR(transform(gpu::kNoTurn));
  RIVULET_RETURN_IF_ERROR(transform(1));
  return stream.Launch("eden_scale", arguments);
}

}  // namespace rivulet
