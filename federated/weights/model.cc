#include "federated/weights/model.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/display_name.h"
#include "engine/base/json.h"
#include "engine/base/large_pages.h"
#include "engine/io/crc32c.h"
#include "engine/io/safetensors.h"

namespace rivulet {
namespace {

constexpr char kDigestKey[] = "rivulet.model_digest";
constexpr char kSegmentsKey[] = "rivulet.segments";
constexpr char kServerSegment[] = "server";
constexpr char kBaseKey[] = "rivulet.base";

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

// The beginning of a model file, up to its first tensor's data.
std::string HeaderOf(const Model& model, const Digest& digest, const std::map<std::string, std::string>& metadata,
                     const ServerFlats* flats) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string_view> segments;
  for (const Slice* slice : PublicSlices(model.layout())) {
    entries.push_back({slice->name, slice->spec.dtype, slice->spec.shape, DataOf(model, *slice)});
    segments[slice->name] = Name(slice->segment);
  }
  std::map<std::string, std::string> all = metadata;
  if (flats != nullptr) {
    for (const auto& [name, values] : *flats) {
      entries.push_back(
          {name, DType::kFloat32, Shape{static_cast<int64_t>(values.size() / sizeof(float))}, values.bytes()});
      segments[name] = kServerSegment;
    }
    all[kServerChecksumsKey] = ServerChecksums(*flats);
  }
  all[kDigestKey] = digest.Hex();
  if (model.layout().base()) all[kBaseKey] = model.layout().base()->Hex();
  all[kSegmentsKey] = Json(segments).Dump();
  // A layout holds only names that the format accepts, and names of flats come from the program itself, so this cannot
  // fail.
  StatusOr<std::string> header = SafetensorsHeader(entries, all);
  RIVULET_CHECK(header.ok(), "{}", Message(header.status()));
  return *std::move(header);
}

// The digest of a model's own tensors, without its base.
Digest DigestAlone(const Model& model) {
  Sha256 hash;
  for (const Slice* slice : PublicSlices(model.layout())) {
    HashTensorHeader(slice->name, slice->spec, hash);
    hash.Update(DataOf(model, *slice));
  }
  return std::move(hash).Finish();
}

std::shared_ptr<std::byte> NewArena(size_t bytes) {
  std::byte* const data = LargePages<std::byte>().allocate(bytes);
  return {data, [bytes](std::byte* arena) { LargePages<std::byte>().deallocate(arena, bytes); }};
}

// A file that states no base, such as a third party's adapter, is accepted for any base.
Status CheckBase(const std::string& stated, const std::optional<Digest>& base) {
  if (stated.empty()) return absl::OkStatus();
  const std::string shown = DisplayText(stated, 64);
  if (!base) {
    return InvalidArgument("the model file is of a model on top of the base model {}; name that base in model.base",
                           shown);
  }
  if (stated == base->Hex()) return absl::OkStatus();
  return InvalidArgument("the model file is of a model on top of the base model {}, and the base here is {}", shown,
                         base->Hex());
}

}  // namespace

Model::Model(std::shared_ptr<const ModelLayout> layout, First first)
    : layout_(std::move(layout)), arena_(NewArena(layout_->arena_bytes())) {
  if (first == First::kZeros) {
    std::ranges::fill(arena(), std::byte{});
  } else {
    ClearPadding();
  }
}

Model::Model(std::shared_ptr<const ModelLayout> layout, std::shared_ptr<std::byte> room)
    : layout_(std::move(layout)), arena_(std::move(room)) {}

void Model::ClearPadding() {
  const std::span<std::byte> all = arena();
  size_t end = 0;  // end of the bytes written so far
  for (const Slice& slice : layout_->slices()) {
    std::ranges::fill(all.subspan(end, slice.offset - end), std::byte{});
    end = slice.offset + DataBytes(slice);
  }
  std::ranges::fill(all.subspan(end), std::byte{});
}

TensorView Model::tensor(const Slice& slice) const {
  // TensorView has no const variant; a caller with a const Model must only read through it.
  return {arena_.get() + slice.offset, slice.spec.dtype, slice.spec.shape};
}

// Hashes names, shapes and values in the order of declaration, not of the file. Files that differ only in metadata or
// order hold the same model, and a client can compute the digest from memory.
Digest Model::ComputeDigest() const {
  Digest digest;
  ComputeDigest(digest, [](size_t) { return true; });
  return digest;
}

void Model::ComputeDigest(Digest& digest, const std::function<bool(size_t end)>& await) const {
  constexpr size_t kStretch = 256 << 10;  // bytes per await
  Sha256 hash;
  HashBase(layout_->base(), hash);
  for (const Slice* slice : PublicSlices(*layout_)) {
    HashTensorHeader(slice->name, slice->spec, hash);
    std::span<const std::byte> left = DataOf(*this, *slice);
    size_t end = slice->offset;
    while (!left.empty()) {
      const size_t count = std::min(left.size(), kStretch);
      end += count;
      if (!await(end)) return;
      hash.Update(left.first(count));
      left = left.subspan(count);
    }
  }
  digest = std::move(hash).Finish();
}

std::string StatedBase(const std::map<std::string, std::string>& metadata) {
  const auto stated = metadata.find(kBaseKey);
  return stated == metadata.end() ? "" : stated->second;
}

std::map<std::string, std::string, std::less<>> StatedSegments(const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string, std::less<>> segments;
  const auto stated = metadata.find(kSegmentsKey);
  if (stated == metadata.end()) return segments;
  const StatusOr<Json> parsed = Json::Parse(stated->second);
  if (!parsed.ok()) return segments;
  for (const auto& [name, segment] : parsed->members()) {
    if (segment.IsText()) segments[name] = segment.text();
  }
  return segments;
}

std::set<std::string> ServerTensors(const std::map<std::string, std::string>& metadata) {
  std::set<std::string> names;
  for (const auto& [name, segment] : StatedSegments(metadata)) {
    if (segment == kServerSegment) names.insert(name);
  }
  return names;
}

std::string ServerChecksums(const ServerFlats& flats) {
  std::string checksums;
  for (const auto& [name, values] : flats) {
    checksums += fmt::format("{}{:08x}", checksums.empty() ? "" : " ", Crc32c(values.bytes()));
  }
  return checksums;
}

ModelFile::ModelFile(std::shared_ptr<const Model> model, const Digest& digest,
                     const std::map<std::string, std::string>& metadata, std::shared_ptr<const ServerFlats> flats)
    : model_(std::move(model)), flats_(std::move(flats)), header_(HeaderOf(*model_, digest, metadata, flats_.get())) {
  const auto add = [this](std::span<const std::byte> piece) {
    if (piece.empty()) return;
    pieces_.push_back(piece);
    begins_.push_back(bytes_);
    bytes_ += static_cast<int64_t>(piece.size());
  };
  add(std::as_bytes(std::span(header_)));
  for (const Slice* slice : PublicSlices(model_->layout())) add(DataOf(*model_, *slice));
  if (flats_ == nullptr) return;
  for (const auto& [name, values] : *flats_) add(values.bytes());
}

std::span<const std::byte> ModelFile::At(int64_t offset) const {
  if (offset >= bytes_) return {};
  const auto piece =
      static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), offset) - begins_.begin()) - 1;
  return pieces_[piece].subspan(static_cast<size_t>(offset - begins_[piece]));
}

std::string ModelToSafetensors(const Model& model, const std::map<std::string, std::string>& metadata) {
  std::string bytes = HeaderOf(model, model.ComputeDigest(), metadata, nullptr);
  for (const Slice* slice : PublicSlices(model.layout())) {
    const auto data = DataOf(model, *slice);
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return bytes;
}

// Requires exactly the layout's tensors: accepting a partial file would leave variables at zero, and training would run
// with meaningless results.
StatusOr<std::shared_ptr<Model>> ModelFromSafetensors(std::shared_ptr<const ModelLayout> layout, std::string_view bytes,
                                                      Digest* digest) {
  RIVULET_ASSIGN_OR_RETURN(const SafetensorsContent content, ParseSafetensors(bytes));
  RIVULET_RETURN_IF_ERROR(CheckBase(StatedBase(content.metadata), layout->base()));
  const std::vector<const Slice*> slices = PublicSlices(*layout);
  const bool whole = slices.size() == layout->slices().size();  // if not, clients' own tensors start as zeros
  auto model = std::make_shared<Model>(std::move(layout), whole ? Model::First::kOverwritten : Model::First::kZeros);
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
    const std::set<std::string> servers = ServerTensors(content.metadata);
    for (const SafetensorsEntry& entry : content.tensors) {
      const Slice* slice = model->layout().Find(entry.name);
      if ((slice == nullptr || slice->segment == Segment::kLocal) && !servers.contains(entry.name)) {
        return InvalidArgument("tensor '{}' of the model file belongs to no variable that the model shares",
                               entry.name);
      }
    }
  }
  const auto stated = content.metadata.find(kDigestKey);
  if (stated == content.metadata.end() && digest == nullptr) return model;
  const Digest found = model->ComputeDigest();
  // A file that states no base has the digest of its tensors alone.
  const bool alone = model->layout().base() && StatedBase(content.metadata).empty();
  const Digest held = alone && stated != content.metadata.end() ? DigestAlone(*model) : found;
  if (stated != content.metadata.end() && stated->second != held.Hex()) {
    return DataLoss("the model file states the digest {} and holds a model of digest {}; it is damaged", stated->second,
                    held.Hex());
  }
  if (digest != nullptr) *digest = found;
  return model;
}

}  // namespace rivulet
