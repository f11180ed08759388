// Sequential reader of bytes, either directly from a mapped file, or unpacked from GZIP or ZLIB.
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

// Guesses the compression from a file's first bytes; kNone unless they begin a packed stream.
Compression DetectCompression(std::span<const std::byte> head);

// A packed file may unpack to 1 GiB, or to 64 times its own size if that is more. Beyond, it is refused as a bomb. Real
// records are compressed by a factor of ten at most.
inline uint64_t DefaultUnpackedBound(uint64_t packed_bytes) {
  const uint64_t floor = uint64_t{1} << 30;
  return packed_bytes > floor / 64 ? packed_bytes * 64 : floor;
}

// Not thread-safe.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` and returns its size, or less at the end of the stream. Errors do not name the file. DATA_LOSS: a
  // damaged stream (with the offset in the packed file), a file that shrank, or a stream above its bound.
  virtual StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // Returns an upper bound on the bytes that remain: exact for an unpacked file, based on the limit for a packed one.
  virtual uint64_t Remaining() const = 0;
  // Returns how many bytes of the file have been consumed.
  virtual uint64_t FilePosition() const = 0;
};

// `file` must outlive the stream. GZIP may consist of several members, as in gzip(1).
std::unique_ptr<ByteStream> NewByteStream(const MappedFile& file, Compression compression, uint64_t unpacked_bound);

// Returns "the file shrank from A to B bytes while it was being read", or a disk error if it did not shrink.
Status ReadFault(const MappedFile& file);

}  // namespace rivulet
