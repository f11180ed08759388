#include "engine/io/npz.h"

#include <set>

#include "engine/io/byte_stream.h"
#include "engine/io/npy.h"
#include "engine/io/zip.h"

namespace rivulet {
namespace {

constexpr std::string_view kNpyEnding = ".npy";
constexpr size_t kLookedAt = size_t{1} << 20;  // below, an array is unpacked without a look at its header
constexpr size_t kHeadBytes = size_t{1} << 17;

std::string QuotedArray(std::string_view name) {  // names come from the file
  std::string text;
  for (const char c : name.substr(0, 80)) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return "array '" + text + "'";
}

// The unpacked size of a large member must be the size that its own header requires.
Status CheckSize(const ZipMember& member) {
  RIVULET_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(ReadZipMemberHead(member, kHeadBytes)));
  const uint64_t wanted = static_cast<uint64_t>(header.shape.elements()) * SizeOf(header.dtype);
  if (member.size == header.data_offset + wanted) return absl::OkStatus();
  return DataLoss("the archive has {} bytes for it, but {}{} needs {}", member.size, Name(header.dtype),
                  header.shape.ToString(), header.data_offset + wanted);
}

}  // namespace

StatusOr<std::vector<std::pair<std::string, Tensor>>> ParseNpz(std::string_view bytes, uint64_t limit) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ReadZipDirectory(bytes));
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::set<std::string_view> names;
  uint64_t unpacked = 0;
  for (const ZipMember& member : members) {
    if (member.deflated) unpacked += std::min(member.size, uint64_t{1} << 62);
    if (unpacked > DefaultUnpackedBound(bytes.size()))
      return ResourceExhausted(
          "the compressed arrays would unpack to {} bytes or more, and those of a file of {} bytes may have {}; if "
          "they are meant to, write them uncompressed (numpy.savez)",
          unpacked, bytes.size(), DefaultUnpackedBound(bytes.size()));
  }
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(kNpyEnding))
      return DataLoss("{} is no .npy array: an .npz file has nothing else in it", QuotedArray(member.name));
    std::string name = member.name.substr(0, member.name.size() - kNpyEnding.size());
    if (!names.insert(member.name).second) return DataLoss("{} is there twice", QuotedArray(name));
    if (member.size <= limit && member.size > kLookedAt) {
      if (const Status size = CheckSize(member); !size.ok()) return Annotate(size, QuotedArray(name));
    }
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
