#include "simulations/launchers/worker_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/display_name.h"
#include "federated/transport/blob_reader.h"
#include "simulations/launchers/invitation.h"

namespace rivulet {
namespace {

// More than the threads of any cluster; each costs some hundred bytes here and at the coordinator.
constexpr size_t kMostSites = 16'384;

// The caller's name for the coordinator.
Caller Named(Caller caller) {
  if (caller.proven != Caller::Proven::kNothing) caller.name += fmt::format(" thread {:x}", caller.session);
  return caller;
}

}  // namespace

WorkerGate::WorkerGate(Coordinator& coordinator, CoordinatorApi& api, WorkerGateOptions options)
    : coordinator_(coordinator),
      api_(api),
      options_(std::move(options)),
      invitation_(std::make_shared<const std::string>(options_.invitation)),
      log_(options_.tell),
      thread_([this] { Watch(); }) {}

WorkerGate::~WorkerGate() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  closed_.NotifyAll();
  thread_.join();
  log_.TellRest();
}

// Heartbeats are due three times per lease, as with the coordinator's leases.
StatusOr<PollReply> WorkerGate::Poll(const PollRequest& asked) {
  if (!options_.attack.empty() && asked.capabilities.version != kWorkerVersion) {
    return PermissionDenied(
        "this simulation is under attack.name = \"{}\", which 'rivulet worker' plays and '{}' does not; leave the "
        "attack out",
        options_.attack, DisplayText(asked.caller.name, 80));
  }
  PollRequest request = asked;
  request.caller = Named(asked.caller);
  const std::string& site = request.caller.name;
  RIVULET_RETURN_IF_ERROR(Heard(asked.caller, site));
  StatusOr<PollReply> reply = api_.Poll(request);
  if (!reply.ok()) return reply;
  reply->wait_ms = std::min<int64_t>(reply->wait_ms, std::max<int64_t>(options_.lease.count() / 3, 1));
  if (reply->over) {
    MutexLock lock(mutex_);
    sites_.erase(site);
  } else if (reply->tasks.empty()) {
    // The transport may hold the poll for so long, and no transport holds one longer.
    constexpr int64_t kLongestHoldMs = 600'000;
    RIVULET_RETURN_IF_ERROR(
        Heard(asked.caller, site, std::chrono::milliseconds(std::clamp<int64_t>(asked.hold_ms, 0, kLongestHoldMs))));
  }
  return reply;
}

StatusOr<std::unique_ptr<ChunkReader>> WorkerGate::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  if (blob != InvitationBlob()) return api_.Fetch(Named(caller), blob, offset);
  if (offset < 0 || offset > std::ssize(*invitation_)) {
    return OutOfRange("offset {} is not within the {} bytes of an invitation", offset, invitation_->size());
  }
  const auto at = [bytes = invitation_](int64_t from) {
    return std::as_bytes(std::span(*bytes)).subspan(static_cast<size_t>(from));
  };
  return std::make_unique<BlobReader>(Blob{std::ssize(*invitation_), at}, offset, nullptr);
}

StatusOr<std::unique_ptr<ChunkWriter>> WorkerGate::Submit(const Caller& caller, const Submission& submission) {
  const Caller named = Named(caller);
  RIVULET_RETURN_IF_ERROR(Heard(caller, named.name));
  return api_.Submit(named, submission);
}

Status WorkerGate::Fail(const Caller& caller, const TaskFailure& failure) { return api_.Fail(Named(caller), failure); }

void WorkerGate::SetListener(NewsListener* listener) {
  api_.SetListener(nullptr);
  listener_ = listener;
  if (listener != nullptr) api_.SetListener(this);
}

void WorkerGate::OnNews(const std::string& site) {
  std::string name = site;
  {
    MutexLock lock(mutex_);
    if (const auto known = sites_.find(site); known != sites_.end()) name = known->second.name;
  }
  listener_->OnNews(name);
}

Status WorkerGate::Heard(const Caller& caller, const std::string& site, std::chrono::milliseconds later) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (sites_.size() >= kMostSites && !sites_.contains(site)) {
      return ResourceExhausted("{} threads of workers take part already; join when some have gone", kMostSites);
    }
    first = sites_.insert_or_assign(site, Site{caller.name, Clock::now() + later}).second;
  }
  if (first) log_.Tell(fmt::format("'{}' has joined", site));
  return absl::OkStatus();
}

void WorkerGate::Watch() {
  const auto look_every =
      std::clamp<std::chrono::milliseconds>(options_.lease / 4, std::chrono::milliseconds(10), std::chrono::seconds(5));
  for (;;) {
    std::vector<std::string> gone;
    {
      MutexLock lock(mutex_);
      if (!closing_) closed_.WaitFor(mutex_, look_every);
      if (closing_) return;
      std::erase_if(sites_, [&](const auto& site) {
        const bool silent = Clock::now() - site.second.heard > options_.lease;
        if (silent) gone.push_back(site.first);
        return silent;
      });
    }
    for (const std::string& site : gone) {
      coordinator_.LoseSite(site);
      log_.Tell(fmt::format("'{}' was silent for {:g} s; others get its tasks", site,
                            static_cast<double>(options_.lease.count()) / 1000));
    }
  }
}

}  // namespace rivulet
