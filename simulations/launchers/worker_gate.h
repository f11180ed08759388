// Proxy between a server and the coordinator of a simulation, for workers that join and leave at any time:
//
//   Fetch(InvitationBlob)   everything a worker must know before it asks for work
//   silence                 a worker silent for `lease` is gone, and its tasks are offered to others. Other leases
//                           of a simulation never expire: threads of the coordinator's process are silent while
//                           they train.
//   names                   under TLS all threads of a worker have its certificate's name; here each gets a separate
//                           one
//   strangers               over plaintext any caller may invent names, so the number of known sites and the rate of
//                           log lines are limited
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "coordinator/coordinator.h"
#include "engine/base/mutex.h"
#include "engine/base/rate_limited_log.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

struct WorkerGateOptions {
  std::string invitation;  // Invitation::ToBytes
  std::chrono::milliseconds lease{60'000};
  // The scenario's attack, which only this program's workers play, not clients written in Python; "": none.
  std::string attack;
  std::function<void(const std::string& sentence)> tell;  // receives joining and leaving workers; null: none
};

// Proxy of the coordinator for workers. Thread-safe.
class WorkerGate final : public CoordinatorApi, private NewsListener {
 public:
  // `coordinator` must outlive this; calls go to `api`, which is the coordinator or passes calls on to it.
  WorkerGate(Coordinator& coordinator, CoordinatorApi& api, WorkerGateOptions options);
  ~WorkerGate() override;

  StatusOr<PollReply> Poll(const PollRequest& request) override;
  StatusOr<std::unique_ptr<ChunkReader>> Fetch(const Caller& caller, const BlobId& blob, int64_t offset) override;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override;
  Status Fail(const Caller& caller, const TaskFailure& failure) override;
  void SetListener(NewsListener* listener) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Site {
    std::string name;  // as known to the transport
    Clock::time_point heard;
  };

  void OnNews(const std::string& site) override;
  // Records a call of `caller`, whose next call may be `later` than usual. RESOURCE_EXHAUSTED: the most sites are known
  // already.
  Status Heard(const Caller& caller, const std::string& site, std::chrono::milliseconds later = {});
  void Watch();

  Coordinator& coordinator_;
  CoordinatorApi& api_;
  const WorkerGateOptions options_;
  const std::shared_ptr<const std::string> invitation_;
  RateLimitedLog log_;
  NewsListener* listener_ = nullptr;  // the transport, if api_ reports news
  Mutex mutex_;
  CondVar closed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::map<std::string, Site> sites_ GUARDED_BY(mutex_);
  std::thread thread_;
};

// Version text of this program's workers, which distinguishes them from others.
inline constexpr char kWorkerVersion[] = "worker";

}  // namespace rivulet
