// Input file of an importer, read once from start to end: uncompressed, or packed with GZIP or ZLIB.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/status.h"
#include "engine/io/byte_stream.h"
#include "engine/io/mapped_file.h"

namespace rivulet {

// Not thread-safe. Errors begin with the path.
class SourceFile {
 public:
  enum class Packing {
    kByContent,  // determined by the first bytes
    kByName,     // GZIP if the name ends in .gz, for formats whose uncompressed content may look packed
  };
  // NOT_FOUND; INVALID_ARGUMENT: not a regular file.
  static StatusOr<std::unique_ptr<SourceFile>> Open(const std::string& path, Packing packing = Packing::kByContent);

  // Returns the next byte, 0 to 255, or -1 at the end and after an error, which is in status().
  int Next() { return at_ < filled_ || Fill() ? buffer_[at_++] : -1; }
  int Peek() { return at_ < filled_ || Fill() ? buffer_[at_] : -1; }
  // OK so far. DATA_LOSS: a damaged stream, one that unpacks to more than its limit, or a file that shrank.
  const Status& status() const { return status_; }
  // Fills `out` and returns its size, or a smaller number at the end. Errors as status().
  StatusOr<size_t> Read(std::span<std::byte> out);

  const std::string& path() const { return file_->path(); }
  uint64_t offset() const { return before_ + at_; }  // unpacked bytes consumed so far
  int64_t position() const { return static_cast<int64_t>(stream_->FilePosition()); }
  int64_t file_bytes() const { return static_cast<int64_t>(file_->size()); }

 private:
  explicit SourceFile(std::unique_ptr<MappedFile> file) : file_(std::move(file)) {}
  bool Fill();

  std::unique_ptr<MappedFile> file_;
  std::unique_ptr<ByteStream> stream_;
  std::array<uint8_t, 1 << 16> buffer_;
  size_t at_ = 0, filled_ = 0;
  uint64_t before_ = 0;  // bytes in earlier buffers
  bool ended_ = false;
  Status status_;
};

}  // namespace rivulet
