#include "engine/io/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/check.h"

namespace rivulet {
namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const MappedFile& file) : file_(file) {}

  StatusOr<size_t> Read(std::span<std::byte> out) override {
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), Remaining())));
    if (!file_.Copy(position_, out)) return ReadFault(file_);
    position_ += out.size();
    return out.size();
  }

  uint64_t Remaining() const override { return file_.size() - position_; }
  uint64_t FilePosition() const override { return position_; }

 private:
  const MappedFile& file_;
  uint64_t position_ = 0;
};

class InflateStream : public ByteStream {
 public:
  InflateStream(const MappedFile& file, Compression compression, uint64_t bound)
      : file_(file), compression_(compression), bound_(bound), packed_(kChunk), unpacked_(kChunk) {
    const int window = compression == Compression::kGzip ? 15 + 16 : 15;
    RIVULET_CHECK(inflateInit2(&zlib_, window) == Z_OK);
  }
  ~InflateStream() override { inflateEnd(&zlib_); }

  StatusOr<size_t> Read(std::span<std::byte> out) override {
    size_t filled = 0;
    while (filled < out.size()) {
      if (next_ == available_) {
        RIVULET_RETURN_IF_ERROR(Unpack());
        if (available_ == 0) break;
      }
      const size_t take = std::min(out.size() - filled, available_ - next_);
      std::memcpy(out.data() + filled, unpacked_.data() + next_, take);
      next_ += take;
      filled += take;
    }
    delivered_ += filled;
    return filled;
  }

  uint64_t Remaining() const override { return bound_ - delivered_; }
  uint64_t FilePosition() const override { return Consumed(); }

 private:
  static constexpr size_t kChunk = 256 * 1024;

  // Refills `unpacked_`; leaves it empty at the end of the stream.
  // A GZIP file may consist of several members, one behind the other, which read as one; ZLIB has no such form, and
  // bytes behind its end are damage.
  Status Unpack() {
    next_ = available_ = 0;
    while (available_ == 0) {
      if (zlib_.avail_in == 0) RIVULET_RETURN_IF_ERROR(ReadPacked());
      if (between_members_) {
        if (zlib_.avail_in == 0) return absl::OkStatus();
        if (compression_ == Compression::kZlib || inflateReset(&zlib_) != Z_OK) {
          return DataLoss("{} bytes follow the end of the {} stream at byte {} of the file", file_.size() - Consumed(),
                          Name(compression_), Consumed());
        }
        between_members_ = false;
      }
      zlib_.next_out = reinterpret_cast<Bytef*>(unpacked_.data());
      zlib_.avail_out = static_cast<uInt>(unpacked_.size());
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      available_ = unpacked_.size() - zlib_.avail_out;
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result == Z_BUF_ERROR) {  // there is room, so the input has ended
        return DataLoss("the {} stream is cut off: the file ends at byte {} in its middle", Name(compression_),
                        file_.size());
      } else if (result != Z_OK) {
        return DataLoss("the {} stream is damaged near byte {} of the file ({})", Name(compression_), Consumed(),
                        zlib_.msg != nullptr ? zlib_.msg : "unreadable");
      }
      produced_ += available_;
      if (produced_ > bound_) {
        return DataLoss(
            "the {} stream unpacks to more than the {} bytes allowed for a file of {} bytes; "
            "if it is meant to, unpack it first",
            Name(compression_), bound_, file_.size());
      }
    }
    return absl::OkStatus();
  }

  Status ReadPacked() {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(packed_.size(), file_.size() - position_));
    if (!file_.Copy(position_, std::span(packed_).first(bytes))) return ReadFault(file_);
    position_ += bytes;
    zlib_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    zlib_.avail_in = static_cast<uInt>(bytes);
    return absl::OkStatus();
  }

  uint64_t Consumed() const { return position_ - zlib_.avail_in; }

  const MappedFile& file_;
  const Compression compression_;
  const uint64_t bound_;
  std::vector<std::byte> packed_, unpacked_;
  z_stream zlib_ = {};
  uint64_t position_ = 0;            // in the file
  uint64_t produced_ = 0;            // unpacked so far
  uint64_t delivered_ = 0;           // handed out so far
  size_t next_ = 0, available_ = 0;  // in unpacked_
  bool between_members_ = false;
};

}  // namespace

std::string_view Name(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZlib:
      return "zlib";
  }
  return "none";
}

Compression DetectCompression(std::span<const std::byte> head) {
  const auto at = [&](size_t i) { return static_cast<unsigned>(head[i]); };
  // RFC 1952: magic, method 8, no reserved flag. RFC 1950: method 8, window up to 32 KiB, a check modulo 31, no
  // dictionary.
  if (head.size() >= 4 && at(0) == 0x1F && at(1) == 0x8B && at(2) == 8 && (at(3) & 0xE0) == 0)
    return Compression::kGzip;
  if (head.size() >= 2 && (at(0) & 0x0F) == 8 && (at(0) >> 4) <= 7 && (at(0) * 256 + at(1)) % 31 == 0 &&
      (at(1) & 0x20) == 0) {
    return Compression::kZlib;
  }
  return Compression::kNone;
}

std::unique_ptr<ByteStream> NewByteStream(const MappedFile& file, Compression compression, uint64_t unpacked_bound) {
  if (compression == Compression::kNone) return std::make_unique<PlainStream>(file);
  return std::make_unique<InflateStream>(file, compression, unpacked_bound);
}

Status ReadFault(const MappedFile& file) {
  const uint64_t now = file.CurrentSize();
  if (now < file.size()) {
    return DataLoss("the file shrank from {} to {} bytes while it was being read; restore it and run again",
                    file.size(), now);
  }
  return DataLoss("the file cannot be read from its disk");
}

}  // namespace rivulet
