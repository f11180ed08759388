// The large messages of proto/rpc/coordinator.proto, byte for byte, in gRPC's slices. Sent bytes are sent in place or
// copied once, and received bytes stay in gRPC's buffers. Protobuf would copy both twice, and keep a string of the
// largest size for the life of its stream. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "proto/rpc/coordinator.grpc.pb.h"

namespace rivulet {

template <typename Message>
grpc::ByteBuffer ToBuffer(const Message& message) {
  grpc::ByteBuffer buffer;
  bool own = false;
  (void)grpc::SerializationTraits<Message>::Serialize(message, &buffer, &own);  // cannot fail if memory suffices
  return buffer;
}
// INVALID_ARGUMENT: not such a message. `buffer` is empty afterwards.
template <typename Message>
Status FromBuffer(grpc::ByteBuffer& buffer, Message* message) {
  if (grpc::SerializationTraits<Message>::Deserialize(&buffer, message).ok()) return absl::OkStatus();
  return InvalidArgument("the other side sent bytes that are no message of this call");
}

// Keeps bytes alive and unchanged while it exists; null: the bytes are copied, and need not stay.
using BytesHolder = std::shared_ptr<const void>;

// Compression of a chunk's bytes, used if it makes them shorter.
enum class Packing : uint8_t { kNone, kZstd };

// A ChunkProto of `data` and its CRC; `total_bytes` 0: omitted.
grpc::ByteBuffer DownloadChunk(int64_t total_bytes, std::span<const std::byte> data, const BytesHolder& holder,
                               Packing packing = Packing::kNone);
// A SubmitMessageProto of a chunk.
grpc::ByteBuffer UploadChunk(std::span<const std::byte> data, const BytesHolder& holder,
                             Packing packing = Packing::kNone);

// A message's bytes in the pieces in which they arrived, and the memory that contains them.
class ArrivedBytes {
 public:
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  int64_t size() const { return size_; }
  uint32_t Crc() const;
  void Clear();
  void Hold(std::span<const std::byte> bytes);  // stores a copy of these bytes instead
  // Decompresses bytes that arrived as a zstd frame. DATA_LOSS: they cannot be decompressed, or exceed the size of a
  // message.
  Status Unpack();

 private:
  friend class MessageCursor;
  friend struct ArrivedDownload;
  friend struct ArrivedSubmit;
  void HoldSlice(grpc::Slice slice);
  std::vector<grpc::Slice> slices_;
  std::vector<std::span<const std::byte>> pieces_;
  int64_t size_ = 0;
  bool packed_ = false;
};

// A received ChunkProto. `total_bytes` and `crc` are 0 if it lacks them.
struct ArrivedDownload {
  int64_t total_bytes = 0;
  uint32_t crc = 0;
  ArrivedBytes data;

  // As FromBuffer. Drops the previous contents.
  Status Take(grpc::ByteBuffer& buffer);
};

// A received SubmitMessageProto: `data` for a chunk, `message` for everything else.
struct ArrivedSubmit {
  bool has_chunk = false;
  ArrivedBytes data;
  rpc::SubmitMessageProto message;

  // As FromBuffer. Drops the previous contents.
  Status Take(grpc::ByteBuffer& buffer);
};

}  // namespace rivulet
