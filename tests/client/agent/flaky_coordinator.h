// A coordinator whose connections break as specified by a test, and an agent that works for it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/agent.h"
#include "federated/updates/block_crcs.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// A coordinator with one client: it offers its tasks one after the other, then ends the run. Connections break as
// specified by a test.
class FlakyCoordinator : public CoordinatorApi {
 public:
  FlakyCoordinator() {
    const std::string plan = PlanBytes(LocalScenario());
    const auto model = PatternModel(*LocalPlan());
    const std::string blob = ModelToSafetensors(*model, {});
    task_.run_id = "run";
    task_.client_id = "site-1";
    task_.plan = AddBlob(plan);
    task_.inputs = {{"model", {BlobId::Form::kModel, model->ComputeDigest()}}};
    blobs_[model->ComputeDigest()] = blob;
  }
  Digest AddBlob(const std::string& bytes) {
    const Digest digest = Sha256Of(bytes);
    blobs_[digest] = bytes;
    return digest;
  }

  StatusOr<PollReply> Poll(const PollRequest& request) override {
    const Caller& caller = request.caller;
    runs_asked_.push_back(caller.run_id);
    if (!caller.run_id.empty() && caller.run_id != task_.run_id) return NotFound("no run {}", caller.run_id);
    capabilities_ = request.capabilities;
    ++polls_;
    if (!poll_errors_.empty()) {
      const Status error = poll_errors_.front();
      poll_errors_.pop_front();
      return error;
    }
    PollReply reply;
    reply.outcomes = outcomes_;
    if (waits_ > 0) {
      --waits_;
      reply.wait_ms = 70;
      reply.awaited.sentence = "4 more clients";
    } else if (tasks_ > 0) {
      reply.tasks.push_back(task_);
      reply.tasks[0].id = NextTask();
    } else {
      reply.over = PollReply::Over{.failed = over_failed_, .sentence = "finished after round 1"};
    }
    return reply;
  }

  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller&, const BlobId& blob, int64_t offset) override {
    fetch_offsets_[blob.digest].push_back(offset);
    if (!blobs_.contains(blob.digest) || (blob.form == BlobId::Form::kModel && lost_ > 0 && lost_--)) {
      return NotFound("no blob {}", blob.digest.Hex());
    }
    return std::make_unique<Reader>(*this, blobs_[blob.digest], offset);
  }

  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller&, const Submission& submission) override {
    ++submits_;
    if (!submit_errors_.empty()) {
      const Status error = submit_errors_.front();
      submit_errors_.pop_front();
      return error;
    }
    submitted_task_ = submission.task;
    bytes_ = submission.bytes;
    train_seconds_ = submission.measured.train_seconds.value_or(0);
    return std::make_unique<Writer>(*this);
  }

  Status Fail(const Caller&, const TaskFailure& failure) override {
    if (!fail_errors_.empty()) {
      const Status error = fail_errors_.front();
      fail_errors_.pop_front();
      return error;
    }
    EXPECT_EQ(failure.sentence, "");  // the sentence stays on this machine
    failures_.push_back(SentenceOf(failure));
    EXPECT_EQ(failure.task, NextTask());
    --tasks_;
    return absl::OkStatus();
  }

  TaskId NextTask() const {
    return named_ ? fmt::format("run-r{}-a1-site-1-0", tasks_) : fmt::format("task-{}", tasks_);
  }
  bool named_ = false;  // with the task names of a coordinator
  bool over_failed_ = false;
  std::vector<TaskOutcome> outcomes_;
  std::string next_run_;  // served once the first task is done
  int tasks_ = 1, waits_ = 0, polls_ = 0;
  int read_breaks_ = 0, write_breaks_ = 0, corruptions_ = 0, damages_ = 0;
  std::deque<Status> poll_errors_, submit_errors_, finish_errors_, fail_errors_;
  Task task_;
  std::map<Digest, std::string> blobs_;
  Capabilities capabilities_;
  std::vector<std::string> runs_asked_, failures_;
  std::map<Digest, std::vector<int64_t>> fetch_offsets_;
  int submits_ = 0;
  bool answer_lost_ = false;
  int lost_ = 0;  // number of times that the model is missing
  std::optional<SubmitResult> decided_;
  std::string staged_;
  TaskId submitted_task_;
  int64_t bytes_ = 0;
  double train_seconds_ = 0;
  SubmitResult result_;

 private:
  class Reader : public ChunkReader {
   public:
    Reader(FlakyCoordinator& owner, std::string blob, int64_t offset)
        : owner_(owner), blob_(std::move(blob)), at_(offset) {}
    int64_t total_bytes() const override { return static_cast<int64_t>(blob_.size()); }
    StatusOr<std::span<const std::byte>> Next() override {
      if (owner_.read_breaks_ > 0 && chunks_ == 1) {
        --owner_.read_breaks_;
        return Unavailable("connection lost");
      }
      if (owner_.damages_ > 0 && chunks_ == 1) {
        --owner_.damages_;
        return DataLoss("a chunk came damaged");
      }
      ++chunks_;
      const size_t size = std::min<size_t>(1000, blob_.size() - static_cast<size_t>(at_));
      if (owner_.corruptions_ > 0 && size > 0) {
        --owner_.corruptions_;
        blob_[static_cast<size_t>(at_)] ^= 1;
      }
      const auto chunk = std::as_bytes(std::span(blob_)).subspan(static_cast<size_t>(at_), size);
      at_ += static_cast<int64_t>(size);
      return chunk;
    }

   private:
    FlakyCoordinator& owner_;
    std::string blob_;
    int64_t at_;
    int chunks_ = 0;
  };

  class Writer : public ChunkWriter {
   public:
    explicit Writer(FlakyCoordinator& owner) : owner_(owner) {}
    const SubmitResult* decided() const override { return owner_.decided_ ? &*owner_.decided_ : nullptr; }
    std::span<const uint32_t> staged_crcs() const override { return {}; }
    Status Resume(int64_t offset) override {
      owner_.staged_.resize(static_cast<size_t>(offset));
      return absl::OkStatus();
    }
    Status Write(std::span<const std::byte> chunk) override {
      if (owner_.write_breaks_ > 0 && chunks_++ == 2) {
        --owner_.write_breaks_;
        return Unavailable("connection lost");
      }
      owner_.staged_.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      return absl::OkStatus();
    }
    StatusOr<SubmitResult> Finish(const Digest& identity) override {
      if (!owner_.finish_errors_.empty()) {
        const Status error = owner_.finish_errors_.front();
        owner_.finish_errors_.pop_front();
        return error;
      }
      EXPECT_EQ(static_cast<int64_t>(owner_.staged_.size()), owner_.bytes_);
      BlockCrcs crcs;
      crcs.Append(std::as_bytes(std::span(owner_.staged_)));
      EXPECT_EQ(crcs.Identity(0), identity);
      --owner_.tasks_;
      if (!owner_.next_run_.empty()) owner_.task_.run_id = owner_.next_run_;
      if (owner_.answer_lost_) {
        owner_.decided_ = SubmitResult{SubmitResult::Kind::kDuplicate, ""};
        return Unavailable("connection lost");
      }
      return owner_.result_;
    }

   private:
    FlakyCoordinator& owner_;
    int chunks_ = 0;
  };
};

class AgentTest : public ::testing::Test {
 protected:
  AgentOptions Options() {
    AgentOptions options;
    options.client_id = "site-1";
    options.version = "1";
    options.data = {BoundData{.dataset = std::make_shared<MemoryDataset>(DigitRecords(25))}};
    options.chunk_bytes = 4096;
    options.sleep = [this](int64_t ms) {
      waits_.push_back(ms);
      if (on_sleep_) on_sleep_();
    };
    options.observer.on_report = [this](const Task&, const TaskReport& report) { reports_.push_back(report); };
    options.observer.on_over = [this](const PollReply::Over& over) { finished_ = over.sentence; };
    return options;
  }

  FlakyCoordinator coordinator_;
  std::vector<int64_t> waits_;
  std::vector<TaskReport> reports_;
  std::string finished_;
  std::function<void()> on_sleep_;
};

}  // namespace rivulet::testing
