#include "federated/weights/model.h"

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
    hash.Update(arena().subspan(slice->offset, DataBytes(*slice)));
  }
  return std::move(hash).Finish();
}

std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata) {
  return ModelToSafetensors(model, metadata, model.ComputeDigest());
}

std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata,
                               const Digest& digest) {
  std::vector<SafetensorsEntry> entries;
  nlohmann::json segments = nlohmann::json::object();
  for (const Slice* slice : PublicSlices(model.layout())) {
    entries.push_back(
        {slice->name, slice->spec.dtype, slice->spec.shape, model.arena().subspan(slice->offset, DataBytes(*slice))});
    segments[slice->name] = Name(slice->segment);
  }
  std::map<std::string, std::string> all = metadata;
  all[kDigestKey] = digest.Hex();
  all[kSegmentsKey] = segments.dump();
  // A layout holds only names that the format takes, so nothing is left that could fail.
  StatusOr<std::string> bytes = SerializeSafetensors(entries, all);
  RIVULET_CHECK(bytes.ok(), "{}", Message(bytes.status()));
  return *std::move(bytes);
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
