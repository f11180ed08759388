// The server side of `./bench.sh --deploy`: a coordinator's staging area without a run. An upload is staged, its CRCs
// and identity are verified as in a run, and it is dropped; a model is in memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "coordinator/intake/upload.h"
#include "federated/transport/blob_reader.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet::bench {

class StagingCoordinator final : public CoordinatorApi {
 public:
  // Uploads beyond `memory_bytes` in total are in `folder`. Fetch returns `model_bytes` bytes.
  StagingCoordinator(std::string folder, int64_t memory_bytes, int64_t model_bytes)
      : staging_(std::move(folder), memory_bytes),
        model_(std::make_shared<const std::string>(static_cast<size_t>(model_bytes), 'x')) {}

  StatusOr<PollReply> Poll(const PollRequest&) override {
    return PollReply{.wait_ms = 1, .awaited = {"1 of 2 clients; round 1 starts when all have joined"}};
  }
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId&, int64_t) override {
    const auto at = [model = model_](int64_t from) {
      return std::as_bytes(std::span(*model)).subspan(static_cast<size_t>(from));
    };
    return std::make_unique<BlobReader>(Blob{std::ssize(*model_), at}, 0, nullptr);
  }
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission& submission) override {
    auto writer = std::make_unique<Writer>(staging_);
    RIVULET_RETURN_IF_ERROR(writer->Begin(submission));
    return writer;
  }
  Status Fail(const Caller&, const TaskFailure&) override { return absl::OkStatus(); }

 private:
  class Writer final : public ChunkWriter {
   public:
    explicit Writer(Staging& staging) : upload_(staging) {}
    Status Begin(const Submission& submission) {
      RIVULET_ASSIGN_OR_RETURN(turn_, upload_.TakeOver(submission));
      return absl::OkStatus();
    }
    std::span<const uint32_t> staged_crcs() const override { return turn_.crcs; }
    Status Resume(int64_t offset) override { return upload_.Resume(turn_.writer, offset); }
    Status Write(std::span<const std::byte> chunk) override { return upload_.Write(turn_.writer, chunk); }
    Status WritePieces(std::span<const std::span<const std::byte>> pieces) override {
      return upload_.WritePieces(turn_.writer, pieces);
    }
    StatusOr<SubmitResult> Finish(const Digest& identity) override {
      RIVULET_RETURN_IF_ERROR(upload_.Complete(turn_.writer, identity).status());
      upload_.Release();
      return SubmitResult{};
    }

   private:
    Upload upload_;
    Upload::Turn turn_;
  };

  Staging staging_;
  const std::shared_ptr<const std::string> model_;
};

}  // namespace rivulet::bench
