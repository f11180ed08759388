// ZIP archives, as far as NumPy's .npz files need them: members stored or deflated, ZIP64, no encryption, one disk.
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
  uint64_t size = 0;  // as it was before compression
  bool deflated = false;
  uint32_t crc32 = 0;
  std::string_view stored;  // in the archive
};

// The members of an archive held in `bytes`, which must outlive them, in the order of its directory. DATA_LOSS: no
// archive, a directory that is cut off or points outside, members that overlap, a size that cannot come of the stored
// bytes, a member whose own header says something else of it than the directory. UNIMPLEMENTED: encryption, another
// compression, several disks.
StatusOr<std::vector<ZipMember>> ReadZipDirectory(std::string_view bytes);

// The member's content; its checksum is verified. DATA_LOSS: damaged. RESOURCE_EXHAUSTED: more than `limit` bytes.
StatusOr<std::string> ReadZipMember(const ZipMember& member, uint64_t limit);

// The first `bytes` bytes of the content, or all where there are fewer, for a look before the rest is unpacked. Not
// verified; what is damaged gives fewer.
std::string ReadZipMemberHead(const ZipMember& member, size_t bytes);

// Writes an archive of stored members.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  // A member whose content is `head` and then `body`. INVALID_ARGUMENT: a name of more than 65,535 bytes. Else the
  // file's errors.
  Status Add(const std::string& name, std::string_view head, std::span<const std::byte> body);
  // The directory; once, after all members.
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
