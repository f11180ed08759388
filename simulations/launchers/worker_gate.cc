#include "simulations/launchers/worker_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "federated/transport/blob_reader.h"
#include "simulations/launchers/invitation.h"

namespace rivulet {
namespace {

// As the coordinator is to know it.
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
      thread_([this] { Watch(); }) {}

WorkerGate::~WorkerGate() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  closed_.NotifyAll();
  thread_.join();
}

// A beat is due three times a lease, as where leases lapse.
StatusOr<PollReply> WorkerGate::Poll(const PollRequest& asked) {
  if (!options_.attack.empty() && asked.capabilities.version != kWorkerVersion) {
    return PermissionDenied(
        "this simulation is under attack.name = \"{}\", which 'rivulet worker' plays and '{}' does not; leave the "
        "attack out",
        options_.attack, asked.caller.name);
  }
  PollRequest request = asked;
  request.caller = Named(asked.caller);
  const std::string& site = request.caller.name;
  Heard(asked.caller, site);
  StatusOr<PollReply> reply = api_.Poll(request);
  if (!reply.ok()) return reply;
  reply->wait_ms = std::min<int64_t>(reply->wait_ms, std::max<int64_t>(options_.lease.count() / 3, 1));
  if (reply->over) {
    MutexLock lock(mutex_);
    sites_.erase(site);
  } else if (reply->tasks.empty()) {
    Heard(asked.caller, site, std::chrono::milliseconds(asked.hold_ms));  // it may be held for so long
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
  Heard(caller, named.name);
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

void WorkerGate::Heard(const Caller& caller, const std::string& site, std::chrono::milliseconds later) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = sites_.insert_or_assign(site, Site{caller.name, Clock::now() + later}).second;
  }
  if (first && options_.tell) options_.tell(fmt::format("'{}' has come", site));
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
      if (options_.tell) {
        options_.tell(fmt::format("'{}' was silent for {:g} s; others get its tasks", site,
                                  static_cast<double>(options_.lease.count()) / 1000));
      }
    }
  }
}

}  // namespace rivulet
