// ZIP archives with the features of NumPy's .npz files: members stored or deflated, ZIP64, no encryption, one disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/io/atomic_file.h"

namespace rivulet {

struct ZipMember {
  std::string name;
  uint64_t size = 0;  // before compression
  bool deflated = false;
  uint32_t crc32 = 0;
  std::string_view stored;  // bytes in the archive
};

// Returns the members of an archive in `bytes`, which must outlive them, in directory order. DATA_LOSS: not an
// archive, a directory that is truncated or points outside, overlapping members, a size that is impossible for the
// stored bytes, or a member's header that contradicts the directory. UNIMPLEMENTED: encryption, another compression,
// several disks.
StatusOr<std::vector<ZipMember>> ReadZipDirectory(std::string_view bytes);

// Returns the member's content and verifies its checksum. DATA_LOSS: damaged. RESOURCE_EXHAUSTED: above `limit` bytes.
StatusOr<std::string> ReadZipMember(const ZipMember& member, uint64_t limit);

// Returns the first `bytes` bytes of the content, or all if there are fewer, for inspection before unpacking the rest.
// Not verified; a damaged member may give fewer.
std::string ReadZipMemberHead(const ZipMember& member, size_t bytes);

// Writes an archive of stored members.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  // Adds a member with the content `head` followed by `body`. INVALID_ARGUMENT: a name longer than 65,535 bytes. Others
  // are the file's errors.
  Status Add(const std::string& name, std::string_view head, std::span<const std::byte> body);
  // Writes the directory; call once, after all members.
  Status Finish();

 private:
  struct Written {
    std::string name;
    uint64_t size, offset;
    uint32_t crc32;
  };
  AtomicFile& file_;
  std::vector<Written> written_;
};

}  // namespace rivulet
