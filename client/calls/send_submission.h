// Sender of one submission over any CoordinatorApi. It sends once, from where the bytes begin to differ from the staged
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/base/status.h"
#include "federated/transport/coordinator_api.h"
#include "federated/updates/block_crcs.h"

namespace rivulet {

// Bytes per write: the most for one message of the network, which may split it.
inline constexpr int64_t kSubmissionChunkBytes = int64_t{960} << 10;

struct SendOptions {
  int64_t chunk_bytes = kSubmissionChunkBytes;
  // Receives the offset before each chunk and once before the end; its error ends the call.
  std::function<Status(int64_t offset)> at;
  // Owner of the bytes, which keeps them unchanged; a network may hold it a little longer than the call. Null: the
  // bytes are copied.
  std::shared_ptr<const void> holder = nullptr;
};

// Sends `bytes`, whose CRCs are `crcs`. Errors are those of Submit, Resume, Write and Finish; after UNAVAILABLE and
// DATA_LOSS it may be sent again.
StatusOr<SubmitResult> SendSubmission(CoordinatorApi& api, const Caller& caller, const Submission& submission,
                                      std::span<const std::byte> bytes, const BlockCrcs& crcs,
                                      const SendOptions& options = {});

}  // namespace rivulet
