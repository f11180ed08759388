#include "client/secure/secure_half.h"

#include <utility>

#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/sum_words.h"
#include "federated/aggregation/word_sums.h"

namespace rivulet {

StatusOr<const secure::SecureProtocol*> SecureProtocolOf(const Plan& plan) {
  return secure::FindSecureProtocol(plan.aggregation().secure.protocol);
}

secure::SecureSettings SecureSettingsOf(const Plan& plan, TaskKind kind) {
  const AggregationSpec& spec = plan.aggregation(kind);
  return secure::SettingsOf(spec.secure, spec.sum_bits());
}

StatusOr<std::string> SecureWords(const AggregationSpec& spec, const Task& task, const LocalResult& trained) {
  RIVULET_ASSIGN_OR_RETURN(const auto rule, RuleWithoutWords(spec));
  RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(spec, trained.declared, {}));
  RIVULET_RETURN_IF_ERROR(rule->Take({task.id, task.base_version, trained.parts, trained.declared}, weights).status());
  return SumWords(spec).Of(rule->Extract(task.base_version));
}

StatusOr<std::unique_ptr<SecureHalf>> SecureHalf::Create(const SecureMember& member, const Plan& plan, const Task& task,
                                                         std::string words) {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, SecureProtocolOf(plan));
  const std::optional<TaskName> name = TaskNameOf(task.id, task.run_id);
  const NamedBlob* const model = task.input("model");
  if (!name || model == nullptr) return InvalidArgument("task '{}' names no attempt of its run, or no model", task.id);
  std::unique_ptr<SecureHalf> half(new SecureHalf(*protocol, std::move(words)));
  half->own_ = member.identity();
  const NodeIdentity& own = *half->own_;
  RIVULET_ASSIGN_OR_RETURN(half->certificate_, ReadCertificate(own.certificate_pem, "this client's certificate"));
  RIVULET_ASSIGN_OR_RETURN(half->key_, ReadKey(own.key_pem, "this client's key"));
  half->seen_ = member.revocations;
  half->revoked_ = half->seen_ != nullptr ? half->seen_->Newest(own) : own.revoked;
  // The client has read the plan. It trains no model of another digest, so no words of one are made.
  const secure::Session session = {.run = task.run_id,
                                   .plan = plan.digest(),
                                   .model = model->id.digest,
                                   .version = static_cast<uint64_t>(task.base_version),
                                   .attempt = static_cast<uint32_t>(name->attempt),
                                   .measures = task.kind == TaskKind::kEvaluate};
  RIVULET_ASSIGN_OR_RETURN(half->client_,
                           protocol->make_client({.name = task.client_id,
                                                  .session = session,
                                                  .settings = SecureSettingsOf(plan, task.kind),
                                                  .policy = member.policy,
                                                  .certificate = &half->certificate_,
                                                  .key = half->key_.get(),
                                                  .trust = {.authority = &own.authority,
                                                            .revoked = half->revoked_ ? &*half->revoked_ : nullptr,
                                                            .now = member.now()}}));
  return half;
}

StatusOr<std::string> SecureHalf::Answer(int step, std::string_view input) {
  if (step != protocol_.sum_step) {
    StatusOr<std::string> answer = client_->Answer(step, input);
    const std::string& list = client_->revocation_list();
    if (answer.ok() && seen_ != nullptr && !list.empty()) std::exchange(seen_, nullptr)->Note(list, *own_);
    return answer;
  }
  RIVULET_RETURN_IF_ERROR(client_->Mask(input, std::as_writable_bytes(std::span(words_))));
  return std::exchange(words_, {});
}

}  // namespace rivulet
