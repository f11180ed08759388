// The writer of an upload whose fate is known.
#pragma once

#include <utility>

#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Tells it, and takes no bytes.
class DecidedWriter : public ChunkWriter {
 public:
  explicit DecidedWriter(SubmitResult result) : result_(std::move(result)) {}
  const SubmitResult* decided() const override { return &result_; }
  std::span<const uint32_t> staged_crcs() const override { return {}; }
  Status Resume(int64_t) override { return absl::OkStatus(); }
  Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
  StatusOr<SubmitResult> Finish(const Digest&) override { return result_; }

 private:
  const SubmitResult result_;
};

}  // namespace rivulet
