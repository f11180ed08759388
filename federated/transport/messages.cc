#include "federated/transport/messages.h"

#include "engine/base/display_name.h"
#include "federated/transport/record_blobs.h"
#include "federated/updates/task_columns.h"

namespace rivulet {
namespace {

// Field of SubmissionProto with a name, which clients of every language set; not part of `measured`.
constexpr int kTrainSeconds = std::get<9>(kTaskColumns).field;
static_assert(std::string_view(std::get<9>(kTaskColumns).name) == "train_seconds");

// Converts `value` to the enumeration E, whose last value is `last`. A newer peer may send an unknown value, which is
// reported here; interpreting it as another value would cause errors later.
template <typename E>
StatusOr<E> ToEnum(int value, E last, std::string_view what) {
  if (value < 0 || value > static_cast<int>(last)) {
    return InvalidArgument("the other side sent {} {}, which this program does not know; is it older?", what, value);
  }
  return static_cast<E>(value);
}

// Makes text from the other side, which may be hostile, safe for logs, terminals and rows.
std::string Words(const std::string& text) {
  constexpr size_t kMostBytes = 2000;
  return DisplayText(text, kMostBytes);
}

using DatasetMessages = google::protobuf::RepeatedPtrField<rpc::DatasetProto>;

void ToMessages(const std::vector<DatasetOffer>& offers, DatasetMessages* message) {
  for (const DatasetOffer& offer : offers) {
    rpc::DatasetProto* to = message->Add();
    to->set_name(offer.name);
    to->set_examples(offer.examples);
    to->mutable_tags()->Assign(offer.tags.begin(), offer.tags.end());
  }
}

std::vector<DatasetOffer> FromMessages(const DatasetMessages& message) {
  std::vector<DatasetOffer> offers;
  for (const rpc::DatasetProto& from : message) {
    offers.push_back({from.name(), from.examples(), {from.tags().begin(), from.tags().end()}});
  }
  return offers;
}

}  // namespace

void ToMessage(const Caller& caller, rpc::CallerProto* message) {
  message->set_name(caller.name);
  message->set_run_id(caller.run_id);
  message->set_session(caller.session);
}

Caller FromMessage(const rpc::CallerProto& message) {
  return {.name = message.name(), .run_id = message.run_id(), .session = message.session()};
}

void ToMessage(const BlobId& blob, rpc::BlobIdProto* message) {
  message->set_form(static_cast<int>(blob.form));
  message->set_digest(std::string(blob.digest.AsBytes()));
}

StatusOr<BlobId> FromMessage(const rpc::BlobIdProto& message) {
  BlobId blob;
  RIVULET_ASSIGN_OR_RETURN(blob.form, ToEnum(message.form(), kReceiptForm, "a blob of form"));
  RIVULET_ASSIGN_OR_RETURN(blob.digest, Digest::FromBytes(message.digest()));
  return blob;
}

void ToMessage(const Task& task, rpc::TaskProto* message) {
  message->set_id(task.id);
  message->set_run_id(task.run_id);
  message->set_client_id(task.client_id);
  message->set_kind(static_cast<int>(task.kind));
  message->set_step(task.step);
  message->set_base_version(task.base_version);
  message->set_ordinal(task.ordinal);
  message->set_stream_key(task.stream_key);
  message->set_plan(std::string(task.plan.AsBytes()));
  message->set_state_of(task.state_of);
  message->set_gather(task.gather);
  message->set_keep(task.keep);
  for (const auto& [name, value] : task.numbers) (*message->mutable_numbers())[name] = value;
  for (const NamedBlob& input : task.inputs) {
    rpc::NamedBlobProto* to = message->add_inputs();
    to->set_name(input.name);
    ToMessage(input.id, to->mutable_id());
  }
}

StatusOr<Task> FromMessage(const rpc::TaskProto& message) {
  Task task;
  task.id = message.id();
  task.run_id = message.run_id();
  task.client_id = message.client_id();
  RIVULET_ASSIGN_OR_RETURN(task.kind, ToEnum(message.kind(), TaskKind::kEvaluate, "a task of kind"));
  if (message.step() < 0 || message.base_version() < 0 || message.ordinal() > UINT16_MAX) {
    return InvalidArgument("the coordinator sent task '{}' with step {}, base version {}, ordinal {}", task.id,
                           message.step(), message.base_version(), message.ordinal());
  }
  task.step = message.step();
  task.base_version = message.base_version();
  task.ordinal = static_cast<uint16_t>(message.ordinal());
  task.stream_key = message.stream_key();
  task.state_of = message.state_of();
  task.gather = message.gather();
  task.keep = message.keep();
  task.numbers.insert(message.numbers().begin(), message.numbers().end());
  RIVULET_ASSIGN_OR_RETURN(task.plan, Digest::FromBytes(message.plan()));
  for (const rpc::NamedBlobProto& input : message.inputs()) {
    // Records and receipts are fetched beside tasks, and are no input of one.
    RIVULET_RETURN_IF_ERROR(ToEnum(input.id().form(), BlobId::Form::kBase, "a blob of form").status());
    RIVULET_ASSIGN_OR_RETURN(const BlobId id, FromMessage(input.id()));
    task.inputs.push_back({input.name(), id});
  }
  return task;
}

void ToMessage(const PollRequest& request, rpc::PollRequestProto* message) {
  ToMessage(request.caller, message->mutable_caller());
  rpc::CapabilitiesProto& capabilities = *message->mutable_capabilities();
  capabilities.set_version(request.capabilities.version);
  capabilities.set_protocol(request.capabilities.protocol);
  ToMessages(request.capabilities.datasets, capabilities.mutable_datasets());
  message->set_serves(static_cast<int>(request.serves.kind));
  for (const ServedName& served : request.serves.names) {
    rpc::ServedNameProto* to = message->add_names();
    to->set_name(served.name);
    ToMessages(served.datasets, to->mutable_datasets());
  }
  for (const TaskProgress& progress : request.working_on) {
    rpc::TaskProgressProto* to = message->add_working_on();
    to->set_task(progress.task);
    to->set_held(progress.held);
    to->set_step(progress.step);
  }
  message->set_want(request.want);
  message->set_hold_ms(request.hold_ms);
  message->set_told(request.told);
}

StatusOr<PollRequest> FromMessage(const rpc::PollRequestProto& message) {
  PollRequest request{.caller = FromMessage(message.caller())};
  request.capabilities.version = message.capabilities().version();
  request.capabilities.protocol = message.capabilities().protocol();
  request.capabilities.datasets = FromMessages(message.capabilities().datasets());
  RIVULET_ASSIGN_OR_RETURN(request.serves.kind, ToEnum(message.serves(), Serves::Kind::kNames, "a site that serves"));
  if (message.names_size() > static_cast<int>(kMostServed)) {
    return InvalidArgument("an aggregator names {} clients in one poll, and {} may be named", message.names_size(),
                           kMostServed);
  }
  for (const rpc::ServedNameProto& from : message.names()) {
    request.serves.names.push_back({from.name(), FromMessages(from.datasets())});
  }
  for (const rpc::TaskProgressProto& from : message.working_on()) {
    if (from.step() < 0) return InvalidArgument("a site is at step {} of task '{}'", from.step(), from.task());
    request.working_on.push_back({.task = from.task(), .held = from.held(), .step = from.step()});
  }
  request.want = message.want();
  request.hold_ms = message.hold_ms();
  request.told = message.told();
  return request;
}

void ToMessage(const PollReply& reply, rpc::PollReplyProto* message) {
  for (const Task& task : reply.tasks) ToMessage(task, message->add_tasks());
  for (const TaskId& task : reply.cancelled) message->add_cancelled(task);
  for (const HandOver& hand_over : reply.hand_over) {
    rpc::HandOverProto* to = message->add_hand_over();
    to->set_gather(hand_over.gather);
    to->mutable_tasks()->Add(hand_over.tasks.begin(), hand_over.tasks.end());
  }
  for (const TaskOutcome& outcome : reply.outcomes) {
    rpc::OutcomeProto* to = message->add_outcomes();
    to->set_task(outcome.task);
    to->set_end(static_cast<int>(outcome.end));
    to->set_reason(outcome.reason);
    to->set_durable(outcome.durable);
  }
  for (const RefusedName& turned : reply.refused_names) {
    rpc::RefusedNameProto* to = message->add_refused_names();
    to->set_name(turned.name);
    to->set_code(static_cast<int>(turned.reason.code()));
    to->set_sentence(std::string(Message(turned.reason)));
  }
  message->set_wait_ms(reply.wait_ms);
  message->mutable_awaited()->set_sentence(reply.awaited.sentence);
  if (reply.over) {
    message->mutable_over()->set_failed(reply.over->failed);
    message->mutable_over()->set_sentence(reply.over->sentence);
  }
}

StatusOr<PollReply> FromMessage(const rpc::PollReplyProto& message) {
  PollReply reply;
  for (const rpc::TaskProto& from : message.tasks()) {
    RIVULET_ASSIGN_OR_RETURN(Task task, FromMessage(from));
    reply.tasks.push_back(std::move(task));
  }
  reply.cancelled.assign(message.cancelled().begin(), message.cancelled().end());
  for (const rpc::HandOverProto& from : message.hand_over()) {
    reply.hand_over.push_back({.gather = from.gather(), .tasks = {from.tasks().begin(), from.tasks().end()}});
  }
  for (const rpc::OutcomeProto& from : message.outcomes()) {
    TaskOutcome outcome{.task = from.task(), .reason = Words(from.reason()), .durable = from.durable()};
    RIVULET_ASSIGN_OR_RETURN(outcome.end, ToEnum(from.end(), TaskEnd::kFailed, "the end of a task"));
    reply.outcomes.push_back(std::move(outcome));
  }
  for (const rpc::RefusedNameProto& from : message.refused_names()) {
    absl::StatusCode code{};
    RIVULET_ASSIGN_OR_RETURN(code, ToEnum(from.code(), absl::StatusCode::kUnauthenticated, "a refusal of code"));
    if (code == absl::StatusCode::kOk) return InvalidArgument("client '{}' is turned away for no reason", from.name());
    reply.refused_names.push_back({from.name(), Status(code, Words(from.sentence()))});
  }
  reply.wait_ms = message.wait_ms();
  reply.awaited.sentence = Words(message.awaited().sentence());
  if (message.has_over()) {
    reply.over = PollReply::Over{.failed = message.over().failed(), .sentence = Words(message.over().sentence())};
  }
  return reply;
}

void ToMessage(const Submission& submission, rpc::SubmissionProto* message) {
  message->set_task(submission.task);
  message->set_step(submission.step);
  message->set_bytes(submission.bytes);
  message->set_train_seconds(submission.measured.train_seconds.value_or(0));
  WriteSiteColumns(submission.measured, *message->mutable_measured(), kTrainSeconds);
  if (message->measured().ByteSizeLong() == 0) message->clear_measured();
  message->set_kind(static_cast<int>(submission.kind));
  message->set_gather(submission.gather);
}

StatusOr<Submission> FromMessage(const rpc::SubmissionProto& message) {
  Submission submission{.task = message.task(), .step = message.step(), .bytes = message.bytes()};
  if (message.bytes() < 0) return InvalidArgument("an upload of {} bytes", message.bytes());
  RIVULET_RETURN_IF_ERROR(ReadSiteColumns(message.measured(), "a submission", submission.measured));
  if (message.train_seconds() != 0) submission.measured.train_seconds = message.train_seconds();
  submission.gather = message.gather();
  RIVULET_ASSIGN_OR_RETURN(submission.kind, ToEnum(message.kind(), Submission::Kind::kStep, "a submission of kind"));
  return submission;
}

void ToMessage(const TaskFailure& failure, rpc::TaskFailureProto* message) {
  message->set_task(failure.task);
  message->set_code(static_cast<int>(failure.code));
  message->set_subject(failure.subject);
  message->mutable_counts()->insert(failure.counts.begin(), failure.counts.end());
}

TaskFailure FromMessage(const rpc::TaskFailureProto& message) {
  TaskFailure failure{.task = message.task(), .subject = message.subject()};
  // A newer client may send further reasons.
  const StatusOr<TaskFailure::Code> code =
      ToEnum(message.code(), TaskFailure::Code::kRaised, "the reason of a failure");
  failure.code = code.value_or(TaskFailure::Code::kUnknown);
  failure.counts.insert(message.counts().begin(), message.counts().end());
  return failure;
}

void ToMessage(const SubmitResult& result, rpc::SubmitResultProto* message) {
  message->set_kind(static_cast<int>(result.kind));
  message->set_reason(result.reason);
}

StatusOr<SubmitResult> FromMessage(const rpc::SubmitResultProto& message) {
  SubmitResult result{.reason = Words(message.reason())};
  RIVULET_ASSIGN_OR_RETURN(result.kind,
                           ToEnum(message.kind(), SubmitResult::Kind::kRefused, "the answer to an upload"));
  return result;
}

}  // namespace rivulet
