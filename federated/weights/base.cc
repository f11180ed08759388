#include "federated/weights/base.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"
#include "engine/io/safetensors.h"
#include "federated/weights/layout.h"

namespace rivulet {
namespace {

constexpr std::string_view kBaseLabel = "rivulet base\n";
constexpr std::string_view kPadding = "rivulet.padding.";
constexpr uint64_t kTensorAlignment = 64;
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr char kIndexName[] = "model.safetensors.index.json", kSingleName[] = "model.safetensors";
// Limit for an index, which lists all tensor names. The largest published models have two thousand tensors.
constexpr uint64_t kMaxIndexBytes = 4 << 20;
constexpr size_t kMaxFiles = 4096;

std::string Shown(std::string_view name) { return DisplayText(name, 200); }

// Whether `name` is a plain file name, so that the file is in the index's own folder.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

}  // namespace

StatusOr<std::shared_ptr<const Base>> Base::Open(const std::string& path) {
  std::shared_ptr<Base> base(new Base(path));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::string index = JoinPath(path, kIndexName), single = JoinPath(path, kSingleName);
    if (FileSystem::Default().Exists(index)) {
      RIVULET_RETURN_IF_ERROR(base->AddIndex(index));
    } else if (FileSystem::Default().Exists(single)) {
      RIVULET_RETURN_IF_ERROR(base->AddFile(single, nullptr));
    } else {
      return NotFound("the folder '{}' has neither {} nor {}; name the safetensors file itself", path, kIndexName,
                      kSingleName);
    }
  } else if (path.ends_with(".index.json")) {
    RIVULET_RETURN_IF_ERROR(base->AddIndex(path));
  } else {
    RIVULET_RETURN_IF_ERROR(base->AddFile(path, nullptr));
  }
  RIVULET_RETURN_IF_ERROR(base->LayOut());
  return std::shared_ptr<const Base>(std::move(base));
}

// `names`, unless null, receives the names of the file's tensors.
Status Base::AddFile(const std::string& path, std::vector<std::string>* names) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), fmt::format("the base '{}'", path));
  const auto fail = [&](const Status& status) { return Annotate(status, fmt::format("the base '{}'", path)); };
  const size_t index = files_.size();
  files_.push_back(*std::move(file));
  const uint64_t size = files_.back()->size();
  std::string start(std::min<uint64_t>(size, 8), '\0');
  RIVULET_RETURN_IF_ERROR(CopyAt(index, 0, std::as_writable_bytes(std::span(start))));
  const StatusOr<uint64_t> header_bytes = SafetensorsHeaderBytes(start, size);
  if (!header_bytes.ok()) return fail(header_bytes.status());
  std::string text(*header_bytes, '\0');
  RIVULET_RETURN_IF_ERROR(CopyAt(index, 8, std::as_writable_bytes(std::span(text))));
  StatusOr<SafetensorsLayout> layout = ParseSafetensorsHeader(text, size - 8 - *header_bytes);
  if (!layout.ok()) return fail(layout.status());
  for (SafetensorsPlace& place : layout->tensors) {
    if (place.name.starts_with(kPadding)) continue;
    if (names != nullptr) names->push_back(place.name);
    tensors_.push_back({std::move(place.name),
                        {place.dtype, std::move(place.shape)},
                        index,
                        8 + *header_bytes + place.begin,
                        place.end - place.begin});
  }
  return absl::OkStatus();
}

// The index and the files must list the same tensors: otherwise a shard of another download would go unnoticed.
Status Base::AddIndex(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return Annotate(file.status(), fmt::format("the base's index '{}'", path));
  if ((*file)->size() > kMaxIndexBytes) {
    return DataLoss("the base's index '{}' has {} bytes, and at most {} are read", path, (*file)->size(),
                    kMaxIndexBytes);
  }
  std::string text((*file)->size(), '\0');
  if (!(*file)->Copy(0, std::as_writable_bytes(std::span(text))))
    return DataLoss("'{}' shrank while it was read", path);
  const StatusOr<Json> index = Json::Parse(text);
  if (!index.ok()) return DataLoss("the base's index '{}': {}", path, Message(index.status()));
  const Json& map = index->At("weight_map");
  if (!map.IsObject() || map.size() == 0) {
    return DataLoss("the base's index '{}' has no \"weight_map\" of tensors and their files", path);
  }
  std::map<std::string, std::vector<std::string>> listed;  // the tensors of each file
  for (const auto& [name, in] : map.members()) {
    if (!in.IsText() || !IsFileName(in.text())) {
      return DataLoss("the base's index '{}' gives no file of its folder for tensor '{}'", path, Shown(name));
    }
    listed[in.text()].push_back(name);
  }
  if (listed.size() > kMaxFiles) {
    return DataLoss("the base's index '{}' names {} files, and at most {} are read", path, listed.size(), kMaxFiles);
  }
  for (auto& [name, tensors] : listed) {
    const std::string shard = JoinPath(FolderOf(path), name);
    std::vector<std::string> found;
    RIVULET_RETURN_IF_ERROR(AddFile(shard, &found));
    std::ranges::sort(found);
    std::ranges::sort(tensors);
    const auto [there, said] = std::ranges::mismatch(found, tensors);
    if (there == found.end() && said == tensors.end()) continue;
    const bool missing = there == found.end() || (said != tensors.end() && *said < *there);
    return DataLoss("the base's index '{}' and its file '{}' differ: tensor '{}' is {}; download both again", path,
                    Shown(name), Shown(missing ? *said : *there), missing ? "not in the file" : "not in the index");
  }
  return absl::OkStatus();
}

Status Base::LayOut() {
  std::ranges::sort(tensors_, {}, &Tensor::name);
  if (tensors_.empty()) return InvalidArgument("the base '{}' has no tensors", path_);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, &Tensor::name);
  if (twice != tensors_.end()) {
    return DataLoss("the base '{}' has the tensor '{}' in two files", path_, Shown(twice->name));
  }
  std::vector<SafetensorsPlace> places;
  for (const Tensor& tensor : tensors_) {
    places.push_back({tensor.name, tensor.spec.dtype, tensor.spec.shape, 0, tensor.bytes});
    const uint64_t padding = (kTensorAlignment - tensor.bytes % kTensorAlignment) % kTensorAlignment;
    if (padding == 0 || &tensor == &tensors_.back()) continue;
    places.push_back({fmt::format("{}{}", kPadding, places.size()), DType::kUint8, Shape{static_cast<int64_t>(padding)},
                      0, padding});
  }
  StatusOr<std::string> header = SafetensorsHeaderOf(places, {});
  if (!header.ok()) return Annotate(header.status(), fmt::format("the base '{}'", path_));
  header_ = *std::move(header);
  pieces_.push_back({0, nullptr, true});
  travel_bytes_ = std::ssize(header_);
  auto tensor = tensors_.begin();
  for (const SafetensorsPlace& place : places) {
    const bool padding = place.name.starts_with(kPadding);
    if (place.end > 0) pieces_.push_back({travel_bytes_, padding ? nullptr : &*tensor, false});
    travel_bytes_ += static_cast<int64_t>(place.end);
    if (!padding) ++tensor;
  }
  Sha256 hash;
  hash.Update(kBaseLabel);
  std::vector<std::byte> buffer(kReadBytes);
  for (const Tensor& each : tensors_) {
    HashTensorHeader(each.name, each.spec, hash);
    for (uint64_t at = 0; at < each.bytes; at += kReadBytes) {
      const std::span<std::byte> part(buffer.data(), std::min<uint64_t>(kReadBytes, each.bytes - at));
      RIVULET_RETURN_IF_ERROR(CopyAt(each.file, each.begin + at, part));
      hash.Update(part);
    }
  }
  digest_ = std::move(hash).Finish();
  return absl::OkStatus();
}

const Base::Tensor* Base::Find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(tensors_, name, {}, [](const Tensor& t) { return std::string_view(t.name); });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

Status Base::CopyAt(size_t file, uint64_t offset, std::span<std::byte> out) const {
  if (out.empty() || files_[file]->Copy(offset, out)) return absl::OkStatus();
  return DataLoss("the base '{}' shrank while it was read, or its disk failed; restore it from a copy",
                  files_[file]->path());
}

Status Base::Copy(const Tensor& tensor, std::span<std::byte> out) const {
  return CopyAt(tensor.file, tensor.begin, out);
}

Status Base::ReadTravelling(int64_t offset, std::span<std::byte> out) const {
  auto piece = std::prev(std::ranges::upper_bound(pieces_, offset, {}, &Piece::begin));
  while (!out.empty()) {
    const int64_t end = std::next(piece) == pieces_.end() ? travel_bytes_ : std::next(piece)->begin;
    const auto within = static_cast<uint64_t>(offset - piece->begin);
    const std::span<std::byte> part = out.first(std::min(out.size(), static_cast<size_t>(end - offset)));
    if (piece->header) {
      std::ranges::copy(std::as_bytes(std::span(header_)).subspan(within, part.size()), part.begin());
    } else if (piece->tensor != nullptr) {
      RIVULET_RETURN_IF_ERROR(CopyAt(piece->tensor->file, piece->tensor->begin + within, part));
    } else {
      std::ranges::fill(part, std::byte{});
    }
    offset += std::ssize(part);
    out = out.subspan(part.size());
    ++piece;
  }
  return absl::OkStatus();
}

Status CheckIsBase(const Base& base, const Digest& wanted) {
  if (base.digest() == wanted) return absl::OkStatus();
  return FailedPrecondition(
      "the base '{}' has digest {}, and {} is needed; give the file that the plan was built from, unchanged",
      base.path(), base.digest().Hex(), wanted.Hex());
}

}  // namespace rivulet
