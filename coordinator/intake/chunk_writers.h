// The writers that Submit returns. Internal to this folder, except for DecidedWriter.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "coordinator/intake/upload.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Writer of an upload that was already accepted or refused: it reports the result and takes no bytes.
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

// Writer that passes chunks to the upload and, on the calling thread, its end to Intake.
class StagedWriter : public ChunkWriter {
 public:
  using End = std::function<StatusOr<SubmitResult>(Upload& upload, int64_t writer, const Digest& identity)>;
  StagedWriter(std::shared_ptr<Upload> upload, Upload::Turn turn, End end)
      : upload_(std::move(upload)), turn_(std::move(turn)), end_(std::move(end)) {}
  std::span<const uint32_t> staged_crcs() const override { return turn_.crcs; }
  Status Resume(int64_t offset) override { return upload_->Resume(turn_.writer, offset); }
  Status Write(std::span<const std::byte> chunk) override { return upload_->Write(turn_.writer, chunk); }
  Status WritePieces(std::span<const std::span<const std::byte>> pieces) override {
    return upload_->WritePieces(turn_.writer, pieces);
  }
  StatusOr<SubmitResult> Finish(const Digest& identity) override { return end_(*upload_, turn_.writer, identity); }

 private:
  const std::shared_ptr<Upload> upload_;
  const Upload::Turn turn_;
  const End end_;
};

}  // namespace rivulet
