// The large messages of proto/rpc/coordinator.proto, byte for byte, in gRPC's slices. Sent bytes are sent in place or
// copied once, and received bytes stay in gRPC's buffers. Protobuf would copy either twice, and keep a string of the
// largest for as long as its stream lives. Internal to this folder.
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
  (void)grpc::SerializationTraits<Message>::Serialize(message, &buffer, &own);  // fails for none that fits in memory
  return buffer;
}
// INVALID_ARGUMENT: the bytes are no such message. They are gone from `buffer`.
template <typename Message>
Status FromBuffer(grpc::ByteBuffer& buffer, Message* message) {
  if (grpc::SerializationTraits<Message>::Deserialize(&buffer, message).ok()) return absl::OkStatus();
  return InvalidArgument("the other side sent bytes that are no message of this call");
}

// What keeps bytes as they are while somebody has it; null: they are copied, and may go.
using BytesHolder = std::shared_ptr<const void>;

// How the bytes of a chunk travel, where that makes them fewer.
enum class Packing : uint8_t { kNone, kZstd };

// A ChunkProto of `data` and its CRC; `total_bytes` 0: without.
grpc::ByteBuffer DownloadChunk(int64_t total_bytes, std::span<const std::byte> data, const BytesHolder& holder,
                               Packing packing = Packing::kNone);
// A SubmitMessageProto of a chunk.
grpc::ByteBuffer UploadChunk(std::span<const std::byte> data, const BytesHolder& holder,
                             Packing packing = Packing::kNone);

// The bytes that a message carries, in the pieces in which they came; what they lie in, too.
class ArrivedBytes {
 public:
  std::span<const std::span<const std::byte>> pieces() const { return pieces_; }
  int64_t size() const { return size_; }
  uint32_t Crc() const;
  void Clear();
  void Hold(std::span<const std::byte> bytes);  // a copy of these instead
  // The bytes themselves where they came as a frame of zstd. DATA_LOSS: they cannot be had from it, or are more than a
  // message may carry.
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

// A ChunkProto that has come. `total_bytes` and `crc` are 0 where it does not say them.
struct ArrivedDownload {
  int64_t total_bytes = 0;
  uint32_t crc = 0;
  ArrivedBytes data;

  // As FromBuffer. What came before is gone.
  Status Take(grpc::ByteBuffer& buffer);
};

// A SubmitMessageProto that has come: `data` where it is a chunk, `message` for all else.
struct ArrivedSubmit {
  bool has_chunk = false;
  ArrivedBytes data;
  rpc::SubmitMessageProto message;

  // As FromBuffer. What came before is gone.
  Status Take(grpc::ByteBuffer& buffer);
};

}  // namespace rivulet
