#include "federated/weights/model.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/io/safetensors.h"

namespace rivulet {
namespace {

constexpr char kDigestKey[] = "rivulet.model_digest";
constexpr char kSegmentsKey[] = "rivulet.segments";

size_t DataBytes(const Slice& slice) { return static_cast<size_t>(slice.elements) * SizeOf(slice.spec.dtype); }

// The slices that leave the process, in declaration order: all but personal layers.
std::vector<const Slice*> PublicSlices(const ModelLayout& layout) {
  std::vector<const Slice*> slices;
  for (const int index : layout.declaration_order()) {
    const Slice& slice = layout.slices()[static_cast<size_t>(index)];
    if (slice.segment != Segment::kLocal) slices.push_back(&slice);
  }
  return slices;
}

std::span<const std::byte> DataOf(const Model& model, const Slice& slice) {
  return model.arena().subspan(slice.offset, DataBytes(slice));
}

// What a model file begins with, up to its first tensor's data.
std::string HeaderOf(const Model& model, const Digest& digest, const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsEntry> entries;
  nlohmann::json segments = nlohmann::json::object();
  for (const Slice* slice : PublicSlices(model.layout())) {
    entries.push_back({slice->name, slice->spec.dtype, slice->spec.shape, DataOf(model, *slice)});
    segments[slice->name] = Name(slice->segment);
  }
  std::map<std::string, std::string> all = metadata;
  all[kDigestKey] = digest.Hex();
  all[kSegmentsKey] = segments.dump();
  // A layout holds only names that the format takes, so nothing is left that could fail.
  StatusOr<std::string> header = SafetensorsHeader(entries, all);
  RIVULET_CHECK(header.ok(), "{}", Message(header.status()));
  return *std::move(header);
}

}  // namespace

Model::Model(std::shared_ptr<const ModelLayout> layout) : layout_(std::move(layout)), arena_(layout_->arena_bytes()) {}

TensorView Model::tensor(const Slice& slice) const {
  // A view has one kind of pointer; who holds a const Model only reads through it.
  return {const_cast<std::byte*>(arena_.data()) + slice.offset, slice.spec.dtype, slice.spec.shape};
}

// Of names, shapes and values in the order of declaration and not of the file: two files that differ in metadata or
// order hold the same model, and a client that computes it from memory needs no file.
Digest Model::ComputeDigest() const {
  Sha256 hash;
  for (const Slice* slice : PublicSlices(*layout_)) {
    HashTensorHeader(*slice, hash);
    hash.Update(DataOf(*this, *slice));
  }
  return std::move(hash).Finish();
}

ModelFile::ModelFile(std::shared_ptr<const Model> model, const Digest& digest,
                     const std::map<std::string, std::string>& metadata)
    : model_(std::move(model)), header_(HeaderOf(*model_, digest, metadata)) {
  const auto add = [this](std::span<const std::byte> piece) {
    if (piece.empty()) return;
    pieces_.push_back(piece);
    begins_.push_back(bytes_);
    bytes_ += static_cast<int64_t>(piece.size());
  };
  add(std::as_bytes(std::span(header_)));
  for (const Slice* slice : PublicSlices(model_->layout())) add(DataOf(*model_, *slice));
}

std::span<const std::byte> ModelFile::At(int64_t offset) const {
  if (offset >= bytes_) return {};
  const auto piece =
      static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), offset) - begins_.begin()) - 1;
  return pieces_[piece].subspan(static_cast<size_t>(offset - begins_[piece]));
}

std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata) {
  std::string bytes = HeaderOf(model, model.ComputeDigest(), metadata);
  for (const Slice* slice : PublicSlices(model.layout())) {
    const auto data = DataOf(model, *slice);
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return bytes;
}

// Every tensor must be there and no other: a file that fits by half would leave variables at zero, which trains and
// means nothing.
StatusOr<std::shared_ptr<Model>> ModelFromSafetensors(std::shared_ptr<const ModelLayout> layout,
                                                      std::string_view bytes) {
  RIVULET_ASSIGN_OR_RETURN(const SafetensorsContent content, ParseSafetensors(bytes));
  auto model = std::make_shared<Model>(std::move(layout));
  const std::vector<const Slice*> slices = PublicSlices(model->layout());
  for (const Slice* slice : slices) {
    const SafetensorsEntry* entry = content.Find(slice->name);
    if (entry == nullptr) {
      return InvalidArgument("the model file has no tensor '{}' ({}{})", slice->name, Name(slice->spec.dtype),
                             slice->spec.shape.ToString());
    }
    if (entry->dtype != slice->spec.dtype || entry->shape != slice->spec.shape) {
      return InvalidArgument("tensor '{}' of the model file is {}{}; the model's is {}{}", slice->name,
                             Name(entry->dtype), entry->shape.ToString(), Name(slice->spec.dtype),
                             slice->spec.shape.ToString());
    }
    if (!entry->data.empty())
      std::memcpy(model->arena().data() + slice->offset, entry->data.data(), entry->data.size());
  }
  if (content.tensors.size() != slices.size()) {
    for (const SafetensorsEntry& entry : content.tensors) {
      const Slice* slice = model->layout().Find(entry.name);
      if (slice == nullptr || slice->segment == Segment::kLocal) {
        return InvalidArgument("tensor '{}' of the model file belongs to no variable that the model shares",
                               entry.name);
      }
    }
  }
  const auto stated = content.metadata.find(kDigestKey);
  if (stated != content.metadata.end()) {
    const std::string found = model->ComputeDigest().Hex();
    if (stated->second != found) {
      return DataLoss("the model file states the digest {} and holds a model of digest {}; it is damaged",
                      stated->second, found);
    }
  }
  return model;
}

}  // namespace rivulet
