// A chunk as one frame of zstd (RFC 8878), and back. Frames are untrusted: the unpacked length is read before memory is
// allocated for it. Internal to this folder.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <span>

#include "engine/base/status.h"

namespace rivulet {

// Empty where the frame would save less than a thirty-second of `data`: then the bytes are sent as they are, and the
// other side is spared the unpacking.
grpc::Slice ZstdFrame(std::span<const std::byte> data);

// What the one frame that lies in `pieces` unpacks to. DATA_LOSS: there is no such frame, it is damaged, it does not
// say how long it is, or that is more than `most`.
StatusOr<grpc::Slice> Unpacked(std::span<const std::span<const std::byte>> pieces, size_t most);

}  // namespace rivulet
