// Writers of a Submit: bytes arrive alike for all submissions, and only the end differs.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "coordinator/intake/intake.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// Of an upload whose fate is known: tells it, and takes no bytes.
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

// Hands chunks to the upload, and its end, on the calling thread, to whoever knows what the bytes are.
class StagedWriter : public ChunkWriter {
 public:
  using End = std::function<StatusOr<SubmitResult>(Upload& upload, int64_t writer, const Digest& identity)>;
  StagedWriter(Intake::Begun begun, End end) : begun_(std::move(begun)), end_(std::move(end)) {}
  std::span<const uint32_t> staged_crcs() const override { return begun_.turn.crcs; }
  Status Resume(int64_t offset) override { return begun_.upload->Resume(begun_.turn.writer, offset); }
  Status Write(std::span<const std::byte> chunk) override { return begun_.upload->Write(begun_.turn.writer, chunk); }
  Status WritePieces(std::span<const std::span<const std::byte>> pieces) override {
    return begun_.upload->WritePieces(begun_.turn.writer, pieces);
  }
  StatusOr<SubmitResult> Finish(const Digest& identity) override {
    return end_(*begun_.upload, begun_.turn.writer, identity);
  }

 private:
  const Intake::Begun begun_;
  const End end_;
};

}  // namespace rivulet
