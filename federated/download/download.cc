#include "federated/download/download.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/join.h"
#include "federated/random/streams.h"
#include "federated/settings/setting_tables.h"
#include "federated/settings/traits.h"

namespace rivulet {
namespace {

constexpr std::string_view kEncodedModel = "RVDOWN1\n";

// Codecs for models, except those with the trait `unless`.
std::vector<std::string> ModelCodecsWithout(std::string_view unless) {
  std::vector<std::string> names;
  for (const SettingTable* codec : SettingTablesOf("codec"))
    if (codec->HasTrait(kSendsWholeModels) && !codec->HasTrait(unless)) names.push_back(codec->name);
  return names;
}

bool TravelsEncoded(const Slice& slice) {
  return slice.segment == Segment::kTrainable || slice.segment == Segment::kShared;
}

}  // namespace

StatusOr<std::unique_ptr<const Download>> Download::Create(std::string_view codec,
                                                           std::shared_ptr<const ModelLayout> layout) {
  if (codec.empty() || codec == "f32") return nullptr;
  if (!HasTrait("codec", codec, kSendsWholeModels)) {
    return InvalidArgument("a model does not travel as '{}'; as one of {} it does", codec,
                           Join(ModelCodecsWithout(""), ", "));
  }
  const auto statistics = std::ranges::find(layout->slices(), Segment::kShared, &Slice::segment);
  if (HasTrait("codec", codec, kMayChangeSigns) && statistics != layout->slices().end()) {
    return InvalidArgument(
        "a model with running statistics ('{}') does not travel as '{}', by which a variance can come out below zero; "
        "as one of {} it does (server.download)",
        statistics->name, codec, Join(ModelCodecsWithout(kMayChangeSigns), ", "));
  }
  RIVULET_ASSIGN_OR_RETURN(auto made, Codec::Create(codec, layout->update_elements()));
  return std::unique_ptr<const Download>(new Download(std::string(codec), std::move(made), std::move(layout)));
}

size_t Download::frozen_bytes() const {
  size_t bytes = 0;
  for (const Slice& slice : layout_->slices()) {
    if (slice.segment == Segment::kFrozen) bytes += static_cast<size_t>(slice.elements) * SizeOf(slice.spec.dtype);
  }
  return bytes;
}

// The runs are in wire order, as slices are: trainable, then shared.
std::string Download::Encode(const Model& model, uint64_t seed, int64_t version) const {
  std::vector<FloatRun> runs;
  for (const Segment segment : {Segment::kTrainable, Segment::kShared}) {
    for (const Slice& slice : layout_->slices()) {
      if (slice.segment != segment || slice.elements == 0) continue;
      runs.push_back({model.tensor(slice).flat<float>().data(), nullptr, slice.elements});
    }
  }
  // No client has the id "", so no client's update uses this stream.
  Draws draws(StreamFor(seed, "", Purpose::kEncode, static_cast<uint32_t>(version)), 0);
  std::string bytes(kEncodedModel);
  codec_->Encode(runs, draws, bytes);
  for (const Slice& slice : layout_->slices()) {
    if (slice.segment != Segment::kFrozen) continue;
    const TensorView tensor = model.tensor(slice);
    bytes.append(reinterpret_cast<const char*>(tensor.data), tensor.bytes());
  }
  return bytes;
}

// Checks the model that clients will receive, once at the server. Training from a model with an infinite value would
// fail at every client without a clear reason.
Status Download::CheckArrives(const Model& model, const Model& arrived) const {
  for (const Slice& slice : layout_->slices()) {
    if (!TravelsEncoded(slice)) continue;
    const auto values = arrived.tensor(slice).flat<float>();
    const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (bad == values.end()) continue;
    const auto element = static_cast<size_t>(bad - values.begin());
    return FailedPrecondition(
        "element {} of tensor '{}' is {}, which comes to clients as {} by \"{}\" (server.download); set it to \"bf16\" "
        "or \"f32\"",
        element, slice.name, model.tensor(slice).flat<float>()[element], *bad, name_);
  }
  return absl::OkStatus();
}

StatusOr<Download::Sent> Download::Send(const Model& model, uint64_t seed, int64_t version) const {
  Sent sent{.bytes = Encode(model, seed, version), .model = nullptr};
  RIVULET_ASSIGN_OR_RETURN(sent.model, Decode(sent.bytes));
  RIVULET_RETURN_IF_ERROR(CheckArrives(model, *sent.model));
  return sent;
}

StatusOr<std::shared_ptr<Model>> Download::Decode(std::string_view bytes) const {
  const size_t frozen = frozen_bytes();
  if (!bytes.starts_with(kEncodedModel) || bytes.size() < kEncodedModel.size() + frozen) {
    return DataLoss("{} bytes are no model as a codec makes it", bytes.size());
  }
  const std::string_view encoded = bytes.substr(kEncodedModel.size(), bytes.size() - kEncodedModel.size() - frozen);
  const std::span<const std::byte> values = std::as_bytes(std::span(encoded.data(), encoded.size()));
  if (const Status good = codec_->Check(values); !good.ok()) return DataLoss("a model's values: {}", Message(good));
  auto model = std::make_shared<Model>(layout_);
  size_t at = bytes.size() - frozen;
  for (const Slice& slice : layout_->slices()) {
    const TensorView to = model->tensor(slice);
    if (TravelsEncoded(slice) && slice.elements > 0) {
      codec_->Decode(values, slice.wire_offset, to.flat<float>());
    } else if (slice.segment == Segment::kFrozen && to.bytes() > 0) {
      std::memcpy(to.data, bytes.data() + at, to.bytes());
      at += to.bytes();
    }
  }
  return model;
}

}  // namespace rivulet
