#include "engine/io/npz.h"

#include <set>

#include "engine/io/npy.h"
#include "engine/io/zip.h"

namespace rivulet {
namespace {

constexpr std::string_view kNpyEnding = ".npy";

std::string QuotedArray(std::string_view name) {  // names come from the file
  std::string text;
  for (const char c : name.substr(0, 80)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return "array '" + text + "'";
}

}  // namespace

StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(std::string_view bytes, uint64_t limit) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(bytes));
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::set<std::string_view> names;
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(kNpyEnding))
      return DataLoss("{} is no .npy array: an .npz file has nothing else in it", QuotedArray(member.name));
    std::string name = member.name.substr(0, member.name.size() - kNpyEnding.size());
    if (!names.insert(member.name).second) return DataLoss("{} is there twice", QuotedArray(name));
    const StatusOr<std::string> content = ReadZipMember(member, limit);
    if (!content.ok()) return Annotate(content.status(), QuotedArray(name));
    StatusOr<Tensor> tensor = DecodeNpy(*content);
    if (!tensor.ok()) return Annotate(tensor.status(), QuotedArray(name));
    arrays.emplace_back(std::move(name), *std::move(tensor));
  }
  return arrays;
}

Status WriteNpz(FileSystem& fs, const std::string& path, std::span<const std::pair<std::string, TensorView>> arrays) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : arrays) {
    if (name.empty()) return InvalidArgument("an array of an .npz file needs a name");
    if (!names.insert(name).second) return InvalidArgument("the .npz file would have the array '{}' twice", name);
    const DType dtype = tensor.dtype == DType::kBFloat16 ? DType::kFloat32 : tensor.dtype;
    const auto preamble = NpyPreamble(dtype, tensor.shape);
    if (!preamble.ok()) return Annotate(preamble.status(), QuotedArray(name));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(fs, path));
  ZipWriter zip(*file);
  for (const auto& [name, tensor] : arrays) {
    if (tensor.dtype == DType::kBFloat16) {
      RIVULET_ASSIGN_OR_RETURN(const std::string widened, EncodeNpy(tensor));
      RIVULET_RETURN_IF_ERROR(zip.Add(name + std::string(kNpyEnding), widened, {}));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(const std::string preamble, NpyPreamble(tensor.dtype, tensor.shape));
    RIVULET_RETURN_IF_ERROR(zip.Add(name + std::string(kNpyEnding), preamble, {tensor.data, tensor.bytes()}));
  }
  RIVULET_RETURN_IF_ERROR(zip.Finish());
  return file->Commit();
}

}  // namespace rivulet
