#include "client/agent/secure_task.h"

#include <algorithm>
#include <utility>

#include "certificates/key.h"
#include "federated/aggregation/aggregation.h"
#include "federated/aggregation/sum_words.h"
#include "federated/secure/messages.h"

namespace rivulet {
namespace {

// Between two polls for the next step, of a coordinator that does not hold them.
constexpr int64_t kMostWaitMs = 1000;

StatusOr<const secure::SecureProtocol*> ProtocolOf(const Plan& plan) {
  return secure::FindSecureProtocol(plan.aggregation().secure.protocol);
}

secure::SecureSettings SettingsOf(const Plan& plan) {
  return secure::SettingsOf(plan.aggregation().secure, plan.aggregation().sum_bits());
}

}  // namespace

StatusOr<std::vector<std::byte>> SecureWords(const AggregationSpec& spec, const Task& task,
                                             const LocalResult& trained) {
  RIVULET_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::Create(spec));
  RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(spec, trained.declared, {}));
  RIVULET_RETURN_IF_ERROR(
      aggregation->Take({task.id, task.base_version, trained.parts, trained.declared}, weights).status());
  const SumWords words(spec);
  std::vector<std::byte> bytes(words.bytes());
  words.Add(aggregation->Extract(task.base_version), bytes);
  return bytes;
}

Status SecureTask::Check(const Plan& plan, const Task& task) const {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, ProtocolOf(plan));
  if (!protocol->hides) {
    return FailedPrecondition("the plan sums by '{}', which hides nothing and is for simulations", protocol->name);
  }
  RIVULET_RETURN_IF_ERROR(secure::CheckPolicy(SettingsOf(plan), identity_.policy));
  if (task.step > 0) {
    return FailedPrecondition(
        "task '{}' is at step {} of secure aggregation, and another process of this client had the secrets of its "
        "first steps",
        task.id, task.step);
  }
  if (identity_.answered != nullptr && identity_.answered->Contains(task.id)) {
    return FailedPrecondition("task '{}' was answered before, and a secure task is answered once", task.id);
  }
  return absl::OkStatus();
}

StatusOr<SubmitResult> SecureTask::Run(PollRequest poll, const Plan& plan, const Task& task,
                                       std::vector<std::byte> words) {
  RIVULET_ASSIGN_OR_RETURN(const secure::SecureProtocol* const protocol, ProtocolOf(plan));
  if (identity_.protect) RIVULET_RETURN_IF_ERROR(identity_.protect());
  const std::optional<TaskName> name = TaskNameOf(task.id, task.run_id);
  const NamedBlob* const model = task.input("model");
  if (!name || model == nullptr) return InvalidArgument("task '{}' names no attempt of its run, or no model", task.id);
  const std::shared_ptr<const NodeIdentity> own = identity_.identity();
  RIVULET_ASSIGN_OR_RETURN(const Certificate certificate,
                           ReadCertificate(own->certificate_pem, "this client's certificate"));
  RIVULET_ASSIGN_OR_RETURN(const KeyHandle key, ReadKey(own->key_pem, "this client's key"));
  // The plan and the model are those that this client has read: their digests were checked as they came.
  const secure::Session session = {.run = task.run_id,
                                   .plan = plan.digest(),
                                   .model = model->id.digest,
                                   .version = static_cast<uint64_t>(task.base_version),
                                   .attempt = static_cast<uint32_t>(name->attempt)};
  RIVULET_ASSIGN_OR_RETURN(const auto client,
                           protocol->make_client({.name = task.client_id,
                                                  .session = session,
                                                  .settings = SettingsOf(plan),
                                                  .policy = identity_.policy,
                                                  .certificate = &certificate,
                                                  .key = key.get(),
                                                  .trust = {.authority = &own->authority,
                                                            .revoked = own->revoked ? &*own->revoked : nullptr,
                                                            .now = identity_.now()}}));
  SubmitResult result;
  for (int step = 0; step < protocol->steps; ++step) {
    std::string input;
    if (step > 0) {
      RIVULET_ASSIGN_OR_RETURN(input, AwaitInput(poll, plan, task.id, step));
    }
    std::string answer;
    if (step == protocol->sum_step) {
      RIVULET_RETURN_IF_ERROR(client->Mask(input, words));
      answer.assign(reinterpret_cast<const char*>(words.data()), words.size());
      words = {};
    } else {
      RIVULET_ASSIGN_OR_RETURN(answer, client->Answer(step, input));
    }
    // From here on this client has told what it tells of one set of clients, whatever becomes of it.
    if (step == protocol->steps - 1 && identity_.answered != nullptr) {
      RIVULET_RETURN_IF_ERROR(identity_.answered->Add(task.id));
    }
    const Submission submission{
        .task = task.id, .step = step, .bytes = std::ssize(answer), .kind = Submission::Kind::kStep};
    RIVULET_ASSIGN_OR_RETURN(
        result, calls_.Submit(poll.caller, submission, std::make_shared<const std::string>(std::move(answer))));
    if (result.kind == SubmitResult::Kind::kRefused) return result;
  }
  return result;
}

StatusOr<std::string> SecureTask::AwaitInput(PollRequest& poll, const Plan& plan, const TaskId& task, int step) {
  poll.working_on = {{.task = task, .step = step - 1}};
  poll.want = 1;
  poll.told = true;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(const PollReply reply, calls_.Poll(poll));
    if (reply.over) {
      over_ = reply.over;
      return Aborted("the run is over: {}", reply.over->sentence);
    }
    if (std::ranges::find(reply.cancelled, task) != reply.cancelled.end()) {
      return Aborted("the coordinator needs task '{}' no longer", task);
    }
    for (const Task& again : reply.tasks) {
      if (again.id != task || again.step != step) continue;
      const NamedBlob* const input = again.input("step");
      if (input == nullptr) continue;
      const auto most = static_cast<size_t>(plan.aggregation().updates_per_version);
      return calls_.Fetch(poll.caller, input->id, static_cast<int64_t>(secure::MostInputBytes(step, most, most)));
    }
    if (!stop_.Sleep(std::clamp<int64_t>(reply.wait_ms, 1, kMostWaitMs))) return Cancelled("stopped");
  }
}

}  // namespace rivulet
