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

// What is written at once: as much as one message of the network's carries at most. The network makes it less where it
// must.
inline constexpr int64_t kSubmissionChunkBytes = int64_t{960} << 10;

struct SendOptions {
  int64_t chunk_bytes = kSubmissionChunkBytes;
  // Told where it goes on, before each chunk and once more before the end; an error ends the call with it.
  std::function<Status(int64_t offset)> at;
  // What the bytes lie in, which keeps them as they are; a network may have it for a while longer than the call takes.
  // Null: they are copied on their way.
  std::shared_ptr<const void> holder = nullptr;
};

// `crcs` are those of `bytes`. Errors are those of Submit, Resume, Write and Finish: UNAVAILABLE and DATA_LOSS say that
// it may be sent again.
StatusOr<SubmitResult> SendSubmission(CoordinatorApi& api, const Caller& caller, const Submission& submission,
                                      std::span<const std::byte> bytes, const BlockCrcs& crcs,
                                      const SendOptions& options = {});

}  // namespace rivulet
