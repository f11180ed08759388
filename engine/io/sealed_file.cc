#include "engine/io/sealed_file.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>

#include "engine/io/atomic_file.h"
#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "a sealed file's CRC is written as it is in memory");

}  // namespace

Status WriteSealedFile(FileSystem& fs, const std::string& path, std::span<const std::string_view> pieces,
                       Survives survives) {
  const std::string folder = FolderOf(path);
  if (!fs.Exists(folder)) {
    RIVULET_RETURN_IF_ERROR(fs.CreateFolders(folder));
    std::error_code ignored;  // a file system without modes has no others to keep out
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto file, AtomicFile::CreatePrivate(fs, path));
  uint32_t crc = 0;
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      // Computes the checksum while the data is still in the cache.
      constexpr size_t kAtATime = size_t{512} << 10;
      const std::string_view part = piece.substr(0, kAtATime);
      piece.remove_prefix(part.size());
      RIVULET_RETURN_IF_ERROR(file->Append(part));
      crc = ExtendCrc32c(crc, std::as_bytes(std::span(part.data(), part.size())));
    }
  }
  RIVULET_RETURN_IF_ERROR(file->Append(std::string_view(reinterpret_cast<const char*>(&crc), sizeof(crc))));
  return survives == Survives::kProcess ? file->CommitUnsynced() : file->Commit();
}

StatusOr<std::string> ReadSealedFile(FileSystem& fs, const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, fs.ReadAll(path));
  uint32_t crc = 0;
  if (bytes.size() >= sizeof(crc)) {
    std::memcpy(&crc, bytes.data() + bytes.size() - sizeof(crc), sizeof(crc));
    bytes.resize(bytes.size() - sizeof(crc));
    if (Crc32c(bytes) == crc) return bytes;
  }
  return DataLoss("'{}' is damaged: its bytes do not give the CRC at its end", path);
}

}  // namespace rivulet
