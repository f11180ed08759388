// Sequential reader of bytes: plain from a mapped file, or unpacked from GZIP or ZLIB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/io/mapped_file.h"

namespace rivulet {

enum class Compression { kNone, kGzip, kZlib };
std::string_view Name(Compression compression);  // "none", "gzip", "zlib"

// What the first bytes of a file look like; kNone when they are no packed stream's.
Compression DetectCompression(std::span<const std::byte> head);

// A packed file may unpack to 1 GiB, or to 64 times its own size if that is more; beyond, it is refused as a bomb
// (records of real data pack by a factor of ten at most).
inline uint64_t DefaultUnpackedBound(uint64_t packed_bytes) {
  const uint64_t floor = uint64_t{1} << 30;
  return packed_bytes > floor / 64 ? packed_bytes * 64 : floor;
}

// Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` and returns its size, or less at the end of the stream. Errors do not name the file. DATA_LOSS: a
  // damaged packed stream (with the byte of the packed file), a file that shrank, a stream beyond its bound.
  virtual StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // Bytes that can still be read, at most: exact for a plain file, up to the bound for a packed one.
  virtual uint64_t Remaining() const = 0;
  // How much of the file has been taken in.
  virtual uint64_t FilePosition() const = 0;
};

// `file` must outlive the stream. GZIP may consist of several members, as gzip(1) reads it.
std::unique_ptr<ByteStream> NewByteStream(const MappedFile& file, Compression compression, uint64_t unpacked_bound);

// "the file shrank from A to B bytes while it was being read", or a disk error when it did not.
Status ReadFault(const MappedFile& file);

}  // namespace rivulet
