#include "federated/transport/chunk_messages.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "engine/io/crc32c.h"
#include "rpc/grpc_options.h"
#include "rpc/zstd_frame.h"

namespace rivulet {

// Parser over a message's slices. Fields may be split anywhere, as the connection has split them.
class MessageCursor {
 public:
  // Stores the slices of `buffer` in `bytes`; Pieces refers to them.
  MessageCursor(const grpc::ByteBuffer& buffer, ArrivedBytes& bytes) : bytes_(bytes) {
    bytes_.Clear();
    whole_ = buffer.Dump(&bytes_.slices_).ok();
    Settle();
  }

  // Each function returns false if the message differs from the expected field; all later calls then do too.
  bool Tag(uint8_t tag) {
    return whole_ && slice_ < bytes_.slices_.size() && bytes_.slices_[slice_].begin()[at_] == tag && Skip();
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte;
      if (!Byte(&byte)) return false;
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return whole_ = false;
  }
  bool Fixed32(uint32_t* value) {
    *value = 0;
    for (int shift = 0; shift < 32; shift += 8) {
      uint8_t byte;
      if (!Byte(&byte)) return false;
      *value |= static_cast<uint32_t>(byte) << shift;
    }
    return true;
  }
  bool Pieces() {
    uint64_t left;
    if (!Varint(&left)) return false;
    for (; left > 0; Settle()) {
      if (slice_ == bytes_.slices_.size()) return whole_ = false;
      const grpc::Slice& slice = bytes_.slices_[slice_];
      const size_t part = std::min<uint64_t>(left, slice.size() - at_);
      bytes_.pieces_.push_back(std::as_bytes(std::span(slice.begin() + at_, part)));
      bytes_.size_ += static_cast<int64_t>(part);
      left -= part;
      at_ += part;
    }
    return true;
  }
  bool AtEnd() const { return whole_ && slice_ == bytes_.slices_.size(); }

 private:
  bool Byte(uint8_t* byte) {
    if (!whole_ || slice_ == bytes_.slices_.size()) return whole_ = false;
    *byte = bytes_.slices_[slice_].begin()[at_];
    return Skip();
  }
  bool Skip() {
    ++at_;
    Settle();
    return true;
  }
  // Moves to the next slice with bytes, or to the end.
  void Settle() {
    for (; slice_ < bytes_.slices_.size() && at_ == bytes_.slices_[slice_].size(); ++slice_) at_ = 0;
  }

  ArrivedBytes& bytes_;
  bool whole_;
  size_t slice_ = 0, at_ = 0;
};

namespace {

// Field numbers and wire types of the two messages.
constexpr uint8_t kTotalBytes = 0x08, kData = 0x12, kCrc = 0x1d, kZstd = 0x22;
constexpr uint8_t kChunk = 0x1a, kZstdChunk = 0x2a;

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// gRPC releases slices on any of its threads, when the connection is done with them. Its C API takes a pointer.
grpc::Slice SliceOf(std::span<const std::byte> data, const BytesHolder& holder) {
  const auto let_go = [](void* held) { delete static_cast<BytesHolder*>(held); };
  return {const_cast<std::byte*>(data.data()), data.size(), let_go, new BytesHolder(holder)};  // which it only reads
}

// Copies all parts into one slice.
grpc::ByteBuffer Joined(std::string_view head, std::span<const std::byte> data, std::string_view tail,
                        const BytesHolder& holder) {
  if (holder != nullptr && !data.empty()) {
    const grpc::Slice slices[] = {{head.data(), head.size()}, SliceOf(data, holder), {tail.data(), tail.size()}};
    return {slices, std::size(slices)};
  }
  grpc::Slice slice(head.size() + data.size() + tail.size());
  auto* to = const_cast<uint8_t*>(slice.begin());  // slices have no other way to be filled
  std::memcpy(to, head.data(), head.size());
  if (!data.empty()) std::memcpy(to + head.size(), data.data(), data.size());
  std::memcpy(to + head.size() + data.size(), tail.data(), tail.size());
  return {&slice, 1};
}

grpc::ByteBuffer Followed(std::string_view head, const grpc::Slice& frame) {
  const grpc::Slice slices[] = {{head.data(), head.size()}, frame};
  return {slices, std::size(slices)};
}

}  // namespace

// Zeros and empty fields are omitted in proto3.
grpc::ByteBuffer DownloadChunk(int64_t total_bytes, std::span<const std::byte> data, const BytesHolder& holder,
                               Packing packing) {
  std::string head, tail;
  if (total_bytes != 0) {
    head.push_back(static_cast<char>(kTotalBytes));
    AppendVarint(static_cast<uint64_t>(total_bytes), head);
  }
  if (const uint32_t crc = Crc32c(data); crc != 0) {
    tail.push_back(static_cast<char>(kCrc));
    for (int shift = 0; shift < 32; shift += 8) tail.push_back(static_cast<char>(crc >> shift));
  }
  if (packing == Packing::kZstd) {
    if (const grpc::Slice frame = ZstdFrame(data); frame.size() > 0) {
      tail.push_back(static_cast<char>(kZstd));
      AppendVarint(frame.size(), tail);
      return Followed(head + tail, frame);
    }
  }
  if (!data.empty()) {
    head.push_back(static_cast<char>(kData));
    AppendVarint(data.size(), head);
  }
  return Joined(head, data, tail, holder);
}

grpc::ByteBuffer UploadChunk(std::span<const std::byte> data, const BytesHolder& holder, Packing packing) {
  if (packing == Packing::kZstd) {
    if (const grpc::Slice frame = ZstdFrame(data); frame.size() > 0) {
      std::string head(1, static_cast<char>(kZstdChunk));
      AppendVarint(frame.size(), head);
      return Followed(head, frame);
    }
  }
  std::string head(1, static_cast<char>(kChunk));
  AppendVarint(data.size(), head);
  return Joined(head, data, "", holder);
}

uint32_t ArrivedBytes::Crc() const {
  uint32_t crc = 0;
  for (const std::span<const std::byte> piece : pieces_) crc = ExtendCrc32c(crc, piece);
  return crc;
}

void ArrivedBytes::Hold(std::span<const std::byte> bytes) {
  HoldSlice(bytes.empty() ? grpc::Slice() : grpc::Slice(bytes.data(), bytes.size()));
}

// A small slice contains its bytes, so it is viewed at its final address.
void ArrivedBytes::HoldSlice(grpc::Slice slice) {
  Clear();
  if (slice.size() == 0) return;
  const grpc::Slice& held = slices_.emplace_back(std::move(slice));
  pieces_.push_back(std::as_bytes(std::span(held.begin(), held.size())));
  size_ = static_cast<int64_t>(held.size());
}

Status ArrivedBytes::Unpack() {
  if (!packed_) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(grpc::Slice slice, Unpacked(pieces_, kMaxMessageBytes));
  HoldSlice(std::move(slice));
  return absl::OkStatus();
}

void ArrivedBytes::Clear() {
  pieces_.clear();
  slices_.clear();
  size_ = 0;
  packed_ = false;
}

// Fast path: this program and protobuf write fields in
// order. Messages with another order are parsed by protobuf.
Status ArrivedDownload::Take(grpc::ByteBuffer& buffer) {
  total_bytes = 0;
  crc = 0;
  MessageCursor at(buffer, data);
  uint64_t total = 0;
  bool read = (!at.Tag(kTotalBytes) || at.Varint(&total)) && (!at.Tag(kData) || at.Pieces()) &&
              (!at.Tag(kCrc) || at.Fixed32(&crc));
  if (read && data.size() == 0 && at.Tag(kZstd)) {
    read = at.Pieces();
    data.packed_ = data.size() > 0;
  }
  if (read && at.AtEnd()) {
    total_bytes = static_cast<int64_t>(total);
    buffer.Clear();
    return absl::OkStatus();
  }
  rpc::ChunkProto message;
  data.Clear();
  RIVULET_RETURN_IF_ERROR(FromBuffer(buffer, &message));
  total_bytes = message.total_bytes();
  crc = message.crc();
  const bool packed = !message.zstd().empty();  // if both are present, zstd counts
  data.Hold(std::as_bytes(std::span(packed ? message.zstd() : message.data())));
  data.packed_ = packed;
  return absl::OkStatus();
}

Status ArrivedSubmit::Take(grpc::ByteBuffer& buffer) {
  MessageCursor at(buffer, data);
  const bool plain = at.Tag(kChunk), packed = !plain && at.Tag(kZstdChunk);
  has_chunk = (plain || packed) && at.Pieces() && at.AtEnd();
  if (has_chunk) {
    data.packed_ = packed;
    buffer.Clear();
    return absl::OkStatus();
  }
  data.Clear();
  RIVULET_RETURN_IF_ERROR(FromBuffer(buffer, &message));
  has_chunk = message.has_chunk() || message.has_zstd();
  if (has_chunk) data.Hold(std::as_bytes(std::span(message.has_zstd() ? message.zstd() : message.chunk())));
  data.packed_ = message.has_zstd();
  return absl::OkStatus();
}

}  // namespace rivulet
