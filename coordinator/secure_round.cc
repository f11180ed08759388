#include "coordinator/secure_round.h"

#include <utility>

#include "federated/secure/messages.h"

namespace rivulet {

StatusOr<const secure::SecureProtocol*> SteppedProtocol(const AggregationSpec& spec) {
  if (!spec.secure.on()) return nullptr;
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol,
                           secure::FindSecureProtocol(spec.secure.protocol));
  return protocol->steps > 1 ? protocol : nullptr;
}

StatusOr<std::unique_ptr<SecureRound>> SecureRound::Create(const AggregationSpec& spec, const secure::Session& session,
                                                           std::shared_ptr<const NodeIdentity> identity, int64_t now) {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SteppedProtocol(spec));
  if (protocol == nullptr) return FailedPrecondition("the plan's sums have no steps");
  if (identity == nullptr) {
    return FailedPrecondition(
        "privacy.secure is \"{}\", whose clients prove their keys by certificates; give the coordinator its folder of "
        "certificates (--tls)",
        spec.secure.protocol);
  }
  std::unique_ptr<SecureRound> round(new SecureRound(spec, *protocol, std::move(identity)));
  const NodeIdentity& own = *round->identity_;
  MutexLock lock(round->mutex_);
  RIVULET_ASSIGN_OR_RETURN(
      round->server_,
      protocol->make_server(
          {.session = session,
           .settings = secure::SettingsOf(spec.secure, spec.sum_bits()),
           .trust = {.authority = &own.authority, .revoked = own.revoked ? &*own.revoked : nullptr, .now = now},
           .revocation_list = own.revoked_pem}));
  return round;
}

int64_t SecureRound::MostBytes(int step) const {
  if (step == protocol_.sum_step) return static_cast<int64_t>(words_.bytes());
  return static_cast<int64_t>(secure::MostAnswerBytes(step, static_cast<size_t>(spec_.updates_per_version)));
}

Status SecureRound::Accept(int step, const std::string& client, std::string_view answer) {
  MutexLock lock(mutex_);
  if (step != server_->step() || step == protocol_.sum_step) {
    return FailedPrecondition("step {} of this attempt is not open; it is at step {}", step, server_->step());
  }
  return server_->Accept(client, answer);
}

// The machine passes only clients that answered the previous step, and each once. So the server half refuses none of
// them; if it did, the sum would be useless.
Status SecureRound::AddWords(std::span<const WordsOf> of, std::span<const std::byte> words) {
  MutexLock lock(mutex_);
  if (server_->step() != protocol_.sum_step) {
    return FailedPrecondition("the sum of this attempt is closed; it is at step {}", server_->step());
  }
  if (words.size() != words_.bytes()) {
    return InvalidArgument("the words of task '{}' are {} bytes, and this plan's are {}", of[0].task, words.size(),
                           words_.bytes());
  }
  for (const auto& [client, task] : of) RIVULET_RETURN_IF_ERROR(server_->Accept(client, ""));
  sum_.resize(words_.bytes());
  AddWordsTo(sum_, words, spec_.sum_bits());
  for (const auto& [client, task] : of) tasks_.insert(task);
  return absl::OkStatus();
}

Status SecureRound::BeginStep(int step, const std::set<std::string, std::less<>>& clients) {
  MutexLock lock(mutex_);
  while (server_->step() < step) {
    // Words cannot be subtracted again: a client that is lost after them stays in the sum's set.
    if (server_->step() != protocol_.sum_step) server_->Keep(clients);
    RIVULET_RETURN_IF_ERROR(server_->Close());
  }
  return absl::OkStatus();
}

StatusOr<std::string> SecureRound::InputFor(const std::string& client) const {
  MutexLock lock(mutex_);
  return server_->InputFor(client);
}

bool SecureRound::CanUnmask() const {
  MutexLock lock(mutex_);
  return server_->CanUnmask();
}

StatusOr<Partial> SecureRound::Unmask(int64_t base_version) {
  MutexLock lock(mutex_);
  std::vector<std::byte> sum = sum_;  // a copy, since this may fail halfway, and more shares may arrive
  RIVULET_RETURN_IF_ERROR(server_->Unmask(sum));
  read_ = true;
  return words_.PartialOf(sum, tasks_, base_version);
}

bool SecureRound::WasRead() const {
  MutexLock lock(mutex_);
  return read_;
}

}  // namespace rivulet
