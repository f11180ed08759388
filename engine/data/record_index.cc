#include "engine/data/record_index.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "engine/base/sha256.h"
#include "engine/base/temporary_name.h"
#include "engine/data/tfrecord.h"
#include "engine/io/crc32c.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic = "RVLINDEX";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 40;
constexpr size_t kCrcBytes = 4;

void Put(uint64_t value, size_t bytes, std::string& out) {
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t Get(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return value;
}

// A file that is not an index is distinguished from an outdated index: it is never overwritten.
enum class Kept { kNothing, kUsable, kStale, kForeign };

// Reads the index file at `path`, if it is one and belongs to the data file.
Kept Load(const std::string& path, const IndexKey& key, std::vector<uint64_t>& offsets) {
  const auto file = MappedFile::Open(path);  // refuses files that could block
  if (!file.ok()) return file.status().code() == absl::StatusCode::kNotFound ? Kept::kNothing : Kept::kForeign;
  std::string bytes(std::min<size_t>((*file)->size(), kMagic.size()), '\0');
  const auto writable = [&] { return std::as_writable_bytes(std::span(bytes.data(), bytes.size())); };
  if (!(*file)->Copy(0, writable())) return Kept::kStale;
  if (!IsIndex(bytes)) return Kept::kForeign;
  // A file cannot have more records than frames fit in it.
  if ((*file)->size() > kHeaderBytes + kCrcBytes + key.file_bytes / kRecordFrameBytes * 8) return Kept::kStale;
  bytes.resize((*file)->size());
  if (!(*file)->Copy(0, writable())) return Kept::kStale;
  auto decoded = DecodeIndex(bytes, key);
  if (!decoded.ok()) return Kept::kStale;
  offsets = *std::move(decoded);
  return Kept::kUsable;
}

// Atomic but without a sync: an index damaged by a crash fails its checksum and is built again.
Status Store(FileSystem& fs, const std::string& path, const std::string& bytes) {
  const std::string temporary = TemporaryNameOf(path);
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(temporary));
  Status status = file->Append(bytes);
  if (status.ok()) status = file->Close();
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) (void)fs.Remove(temporary);
  return status;
}

// Named by the digest of the real path, so that data on a read-only disk can have an index too, and two names of one
// file share it.
std::string CachePath(const std::string& data_path, const std::string& cache_folder) {
  if (cache_folder.empty()) return "";
  std::error_code error;
  const auto absolute = std::filesystem::canonical(data_path, error);
  if (error) return "";
  return JoinPath(cache_folder, Sha256Of(absolute.string()).Hex().substr(0, 32) + ".index");
}

}  // namespace

// Size and time are not sufficient: a copy may keep the time, and a file may be rewritten within the clock's
// resolution. Hashing everything would cost what the index saves. Reading 64 blocks spread over the file takes
// milliseconds, and rewriting records changes their contents. A change that keeps size, time and all samples is still
// found by a record's checksum.
StatusOr<IndexKey> MakeIndexKey(const MappedFile& file) {
  constexpr uint64_t kBlocks = 64, kBlockBytes = 4096;
  IndexKey key{file.size(), file.modified_nanoseconds(), 0};
  std::string block;
  const auto sample = [&](uint64_t offset, uint64_t bytes) {
    block.resize(bytes);
    const auto writable = std::as_writable_bytes(std::span(block.data(), block.size()));
    if (!file.Copy(offset, writable)) return false;
    key.sample_crc = ExtendCrc32c(key.sample_crc, writable);
    return true;
  };
  bool readable = true;
  if (file.size() <= kBlocks * kBlockBytes) {
    readable = sample(0, file.size());
  } else {
    for (uint64_t i = 0; readable && i < kBlocks; ++i) {
      // In two steps, because the product can overflow.
      const uint64_t span = file.size() - kBlockBytes;
      const uint64_t offset = span / (kBlocks - 1) * i + span % (kBlocks - 1) * i / (kBlocks - 1);
      readable = sample(offset, kBlockBytes);
    }
  }
  if (!readable) return Annotate(ReadFault(file), RecordPlace(file.path(), 0, 0));
  return key;
}

bool IsIndex(std::string_view head) { return head.substr(0, kMagic.size()) == kMagic; }

std::string EncodeIndex(const IndexKey& key, const std::vector<uint64_t>& offsets) {
  std::string out(kMagic);
  out.reserve(kHeaderBytes + offsets.size() * 8 + kCrcBytes);
  Put(kVersion, 4, out);
  Put(key.sample_crc, 4, out);
  Put(key.file_bytes, 8, out);
  Put(static_cast<uint64_t>(key.modified_nanoseconds), 8, out);
  Put(offsets.size(), 8, out);
  for (const uint64_t offset : offsets) Put(offset, 8, out);
  Put(MaskCrc(Crc32c(out)), kCrcBytes, out);
  return out;
}

// Checks every offset, because indices are not trusted: no record may start before the previous frame ends, or extend
// beyond the data.
StatusOr<std::vector<uint64_t>> DecodeIndex(std::string_view bytes, const IndexKey& key) {
  if (bytes.size() < kHeaderBytes + kCrcBytes || !IsIndex(bytes)) return DataLoss("not an index");
  const size_t body = bytes.size() - kCrcBytes;
  if (Get(bytes, body, kCrcBytes) != MaskCrc(Crc32c(bytes.substr(0, body)))) return DataLoss("the index is damaged");
  if (Get(bytes, 8, 4) != kVersion) return FailedPrecondition("the index has another version");
  const IndexKey made_from{Get(bytes, 16, 8), static_cast<int64_t>(Get(bytes, 24, 8)),
                           static_cast<uint32_t>(Get(bytes, 12, 4))};
  if (made_from != key) return FailedPrecondition("the index was made from another content");
  const uint64_t count = Get(bytes, 32, 8);
  if (count != (body - kHeaderBytes) / 8 || (body - kHeaderBytes) % 8 != 0) return DataLoss("the index is damaged");
  std::vector<uint64_t> offsets(count);
  uint64_t least = 0;
  for (uint64_t i = 0; i < count; ++i) {
    offsets[i] = Get(bytes, kHeaderBytes + 8 * i, 8);
    const bool possible = (i == 0 ? offsets[i] == 0 : offsets[i] >= least) && offsets[i] < key.file_bytes &&
                          key.file_bytes - offsets[i] >= kRecordFrameBytes;
    if (!possible) return DataLoss("the index is damaged");
    least = offsets[i] + kRecordFrameBytes;
  }
  if (count == 0 && key.file_bytes != 0) return DataLoss("the index is damaged");
  return offsets;
}

// Reads only headers, so indexing costs at most one page per record instead of all data.
StatusOr<std::vector<uint64_t>> ScanRecords(const MappedFile& file) {
  std::vector<uint64_t> offsets;
  uint64_t offset = 0;
  const auto fail = [&](const Status& status) {
    const bool shrank = file.CurrentSize() < file.size();
    return Annotate(shrank ? ReadFault(file) : status,
                    RecordPlace(file.path(), static_cast<int64_t>(offsets.size()), offset));
  };
  while (offset < file.size()) {
    std::byte header[kRecordHeaderBytes];
    const uint64_t left = file.size() - offset;
    if (left < sizeof(header))
      return fail(DataLoss("cut off: {} of the header's {} bytes are there", left, sizeof(header)));
    if (!file.Copy(offset, header)) return fail(ReadFault(file));
    if (offset == 0 && IsIndex({reinterpret_cast<const char*>(header), sizeof(header)}))
      return fail(InvalidArgument("an index, not records; name the file that it was made from"));
    const auto length = DecodeRecordHeader(header);
    if (!length.ok()) return fail(length.status());
    if (const Status fits = CheckRecordFits(*length, left - sizeof(header)); !fits.ok()) return fail(fits);
    offsets.push_back(offset);
    offset += kRecordFrameBytes + *length;
  }
  return offsets;
}

std::string DefaultCacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return JoinPath(cache, "rivulet");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return JoinPath(home, ".cache/rivulet");
  return "";
}

// First beside the file, for all users; then in this user's cache. If neither is writable, the index is built each
// time, which is slower but no error.
StatusOr<std::vector<uint64_t>> LoadOrBuildIndex(const MappedFile& file, FileSystem& fs,
                                                 const std::string& cache_folder) {
  RIVULET_ASSIGN_OR_RETURN(const IndexKey key, MakeIndexKey(file));
  const std::string sidecar = file.path() + ".index";
  std::vector<uint64_t> offsets;
  const Kept beside = Load(sidecar, key, offsets);
  if (beside == Kept::kUsable) return offsets;
  const std::string cached = CachePath(file.path(), cache_folder);
  if (!cached.empty() && Load(cached, key, offsets) == Kept::kUsable) return offsets;

  RIVULET_ASSIGN_OR_RETURN(offsets, ScanRecords(file));
  const std::string bytes = EncodeIndex(key, offsets);
  if (beside != Kept::kForeign && Store(fs, sidecar, bytes).ok()) return offsets;
  if (!cached.empty() && fs.CreateFolders(cache_folder).ok()) (void)Store(fs, cached, bytes);
  return offsets;
}

}  // namespace rivulet
