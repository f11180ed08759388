// A chunk as one frame of zstd (RFC 8878), and back. Frames are untrusted: the unpacked length is read before memory is
// allocated for it. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <span>

#include "engine/base/status.h"

namespace rivulet {

// Empty if the frame would save less than a thirty-second of `data`: then the bytes are sent as they are, which spares
// the receiver the unpacking.
grpc::Slice ZstdFrame(std::span<const std::byte> data);

// The unpacked content of the single frame in `pieces`. DATA_LOSS: there is no frame, it is damaged, its length is
// missing, or the length exceeds `most`.
StatusOr<grpc::Slice> Unpacked(std::span<const std::span<const std::byte>> pieces, size_t most);

}  // namespace rivulet
