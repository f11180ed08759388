#include "rpc/zstd_frame.h"

#include <zstd.h>

#include <cstring>
#include <vector>

namespace rivulet {
namespace {

// zstd's lowest regular level. Weights are numbers with noise in their low bits: a higher level takes three times as
// long for the same seven per cent, and a sparse update is small at any level.
constexpr int kLevel = 1;

// A slice has no other way to be filled.
std::byte* BytesOf(const grpc::Slice& slice) {
  return reinterpret_cast<std::byte*>(const_cast<uint8_t*>(slice.begin()));
}

}  // namespace

grpc::Slice ZstdFrame(std::span<const std::byte> data) {
  const size_t worth = data.size() - data.size() / 32;
  const grpc::Slice packed(worth);
  const size_t size = data.empty() ? 0 : ZSTD_compress(BytesOf(packed), worth, data.data(), data.size(), kLevel);
  // An error means that it does not fit.
  return size == 0 || ZSTD_isError(size) ? grpc::Slice() : packed.sub(0, size);
}

StatusOr<grpc::Slice> Unpacked(std::span<const std::span<const std::byte>> pieces, size_t most) {
  std::vector<std::byte> joined;
  std::span<const std::byte> frame;
  if (pieces.size() == 1) {
    frame = pieces.front();
  } else {
    for (const std::span<const std::byte> piece : pieces) joined.insert(joined.end(), piece.begin(), piece.end());
    frame = joined;
  }
  const unsigned long long says = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (says == ZSTD_CONTENTSIZE_ERROR) return DataLoss("a chunk of {} bytes is no frame of zstd", frame.size());
  if (says == ZSTD_CONTENTSIZE_UNKNOWN) return DataLoss("a compressed chunk does not state its length");
  if (says > most) return DataLoss("a compressed chunk claims {} bytes, and at most {} are allowed", says, most);
  // Several frames in one chunk would be unpacked one after another.
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return DataLoss("a compressed chunk is cut off, or there is more than one frame in it");
  }
  const size_t size = static_cast<size_t>(says);
  const grpc::Slice unpacked(size);
  const size_t came = ZSTD_decompress(BytesOf(unpacked), size, frame.data(), frame.size());
  if (ZSTD_isError(came)) return DataLoss("a compressed chunk is damaged: {}", ZSTD_getErrorName(came));
  if (came != size) return DataLoss("a compressed chunk claims {} bytes, and has {}", size, came);
  return unpacked;
}

}  // namespace rivulet
