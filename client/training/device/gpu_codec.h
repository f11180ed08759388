// Codec of one part of updates on a device (engine/kernels/cuda/codec.h). It replaces each value by the one that the
// fold would decode, to the bit, for all lanes at once. It makes no bytes: those are for a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/base/status.h"
#include "engine/gpu/gpu_device.h"
#include "engine/kernels/cuda/codec.h"
#include "engine/kernels/cuda/fold.h"
#include "engine/program/gpu_kernel.h"
#include "federated/aggregation/aggregation_spec.h"

namespace rivulet {

// Lanes' values of a part, as written by "send_values", and the other inputs of its codec, all on the device.
struct GpuSentPart {
  GpuOperand values;                     // padded_values() of each lane
  GpuOperand scratch;                    // ScratchBytes() of each lane
  const gpu::Stream* streams = nullptr;  // by lane
  uint32_t op = 0;                       // index of the part, for draws
  int lanes = 0;
};

class GpuCodec {
 public:
  // Nullopt: a codec that only the host has, or a part without values.
  static std::optional<GpuCodec> Of(const PartSpec& part);

  // Whether a fold does the whole codec while it reads the values (FoldCodec), so no stage before it is needed.
  bool in_fold() const { return kind_ == Kind::kInFold; }
  gpu::FoldCodec fold() const { return fold_; }

  int64_t padded_values() const;
  size_t ScratchBytes() const;
  Status Encode(GpuStream& stream, const GpuSentPart& part) const;

 private:
  enum class Kind { kInFold, kScaled, kSign, kTopK, kRandomK, kEden };

  Status EncodeScaled(GpuStream& stream, const GpuSentPart& part) const;
  Status EncodeSign(GpuStream& stream, const GpuSentPart& part) const;
  Status EncodeTopK(GpuStream& stream, const GpuSentPart& part) const;
  Status EncodeRandomK(GpuStream& stream, const GpuSentPart& part) const;
  Status EncodeEden(GpuStream& stream, const GpuSentPart& part) const;
  int64_t blocks() const { return (count_ + block_ - 1) / block_; }

  Kind kind_ = Kind::kInFold;
  gpu::FoldCodec fold_ = gpu::FoldCodec::kFloat32;
  int64_t count_ = 0, k_ = 0;
  int32_t block_ = 1, levels_ = 0, bits_ = 0;
  bool by_norm_ = false;
};

}  // namespace rivulet
