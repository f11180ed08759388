#include "client/task_runner.h"

#include <algorithm>
#include <utility>

#include "client/update_message_writer.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

constexpr int kFetchTries = 3;  // of a blob whose bytes do not have its digest

bool IsTransient(const Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }
bool TurnedAway(const Status& status) { return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status); }

}  // namespace

std::string_view Name(TaskReport::Kind kind) {
  switch (kind) {
    case TaskReport::Kind::kAccepted:
      return "accepted";
    case TaskReport::Kind::kDuplicate:
      return "duplicate";
    case TaskReport::Kind::kRefused:
      return "refused";
    case TaskReport::Kind::kFailed:
      return "failed";
    case TaskReport::Kind::kGone:
      return "too late";
  }
  return "";
}

TaskRunner::TaskRunner(CoordinatorApi& api, ArtifactCache& artifacts, StopSignal& stop, TaskRunnerOptions options)
    : api_(api), artifacts_(artifacts), stop_(stop), options_(std::move(options)) {}

bool TaskRunner::Pause(const Status& status, Backoff& backoff) {
  if (!IsTransient(status)) return false;
  const int64_t wait_ms = backoff.NextMs();
  if (options_.on_retry) options_.on_retry(status, wait_ms);
  return stop_.Sleep(wait_ms);
}

StatusOr<PollReply> TaskRunner::Poll(const PollRequest& request) {
  Backoff backoff(options_.backoff, request.caller.name);
  for (;;) {
    if (stop_.stopped()) return Cancelled("stopped");
    StatusOr<PollReply> reply = api_.Poll(request);
    if (reply.ok()) return reply;
    if (!Pause(reply.status(), backoff)) return stop_.stopped() ? Cancelled("stopped") : reply.status();
  }
}

// What has arrived is kept over lost connections, and only the rest is asked for; the digest is of the whole, so a
// coordinator that was restarted, or another one, may serve the second half. A model's digest is of what is in the file
// and is compared by whoever parses it.
StatusOr<std::string> TaskRunner::Fetch(const Caller& caller, const BlobId& id) {
  Backoff backoff(options_.backoff, caller.name);
  std::string blob;
  int wrong = 0;
  // One pass opens the blob where the last one ended and reads until the end or an error.
  const auto read_on = [&]() -> Status {
    RIVULET_ASSIGN_OR_RETURN(auto reader, api_.Fetch(caller, id, static_cast<int64_t>(blob.size())));
    const int64_t total = reader->total_bytes();
    // What a stranger announces is no reason to take memory; what arrives is.
    if (total > 0 && total <= int64_t{1} << 30) blob.reserve(static_cast<size_t>(total));
    for (;;) {
      if (stop_.stopped()) return Cancelled("stopped");
      const StatusOr<std::span<const std::byte>> next = reader->Next();
      if (absl::IsDataLoss(next.status())) ++wrong;
      RIVULET_RETURN_IF_ERROR(next.status());
      const std::span<const std::byte> chunk = *next;
      if (chunk.empty()) break;
      backoff.Reset();
      blob.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
      if (static_cast<int64_t>(blob.size()) > total) break;
    }
    // Wrong bytes cannot be told from right ones by their place, so all go. A few tries: what is wrong again and again
    // is wrong where it comes from.
    if (static_cast<int64_t>(blob.size()) != total ||
        (id.form == BlobId::Form::kBytes && Sha256Of(blob) != id.digest)) {
      const size_t got = blob.size();
      blob.clear();
      ++wrong;
      return DataLoss("{} bytes of {} arrived for blob {}, and they do not have that digest", got, total,
                      id.digest.Hex());
    }
    return absl::OkStatus();
  };
  for (;;) {
    const Status status = read_on();
    if (status.ok()) return blob;
    if (absl::IsDataLoss(status) && wrong < kFetchTries) continue;
    if (!Pause(status, backoff)) return stop_.stopped() ? Cancelled("stopped") : status;
  }
}

// The coordinator says at which offset to go on, as it alone knows what it has kept. Waiting times start anew only when
// more has been staged than ever before; otherwise a connection that breaks at the same byte each time would be tried
// again without a pause.
StatusOr<SubmitResult> TaskRunner::Submit(const Caller& caller, const Task& task, const std::string& update) {
  Backoff backoff(options_.backoff, caller.name);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(update));
  const Digest digest = Sha256Of(update);
  const auto total = static_cast<int64_t>(bytes.size());
  int64_t furthest = 0;
  const auto send = [&]() -> StatusOr<SubmitResult> {
    RIVULET_ASSIGN_OR_RETURN(auto writer, api_.Submit(caller, {task.id, task.step, total, digest}));
    int64_t offset = writer->offset();
    if (offset < 0 || offset > total) {
      return Internal("the coordinator has staged {} bytes of an update of {}", offset, total);
    }
    if (offset > furthest) backoff.Reset();
    furthest = std::max(furthest, offset);
    while (offset < total) {
      if (stop_.stopped()) return Cancelled("stopped");
      const int64_t size = std::min(options_.chunk_bytes, total - offset);
      RIVULET_RETURN_IF_ERROR(writer->Write(bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size))));
      offset += size;
    }
    return writer->Finish();
  };
  for (;;) {
    StatusOr<SubmitResult> submitted = send();
    if (submitted.ok()) return submitted;
    // Full staging empties as other updates are folded, which makes it as transient as a lost connection.
    const Status status = absl::IsResourceExhausted(submitted.status()) ? Unavailable("{}", Message(submitted.status()))
                                                                        : submitted.status();
    if (!Pause(status, backoff)) return stop_.stopped() ? Cancelled("stopped") : submitted.status();
  }
}

StatusOr<LocalResult> TaskRunner::FetchAndTrain(const Caller& caller, const Task& task, const BoundData& data) {
  if (task.kind != TaskKind::kTrain) {
    return Unimplemented("task {} is to {}, which this client cannot do; update it", task.id, Name(task.kind));
  }
  Tracer* const tracer = options_.instruments.tracer;
  TraceSpan fetching(tracer, "phase", "fetch");
  RIVULET_ASSIGN_OR_RETURN(const auto artifacts, artifacts_.Plan(task.plan, [&] {
    return Fetch(caller, {BlobId::Form::kBytes, task.plan});
  }));
  const Plan& plan = *artifacts->plan;
  // A plan names its data set, and what the client's own configuration has bound decides; a plan cannot reach for
  // another.
  if (plan.dataset() != data.name) {
    return FailedPrecondition("plan '{}' trains on data set '{}', but this client has bound '{}'", plan.name(),
                              plan.dataset(), data.name);
  }
  const NamedBlob* const model = task.input("model");
  if (model == nullptr || model->id.form != BlobId::Form::kModel) {
    return InvalidArgument("task {} names no model to start from; is the coordinator newer than this client?", task.id);
  }
  RIVULET_ASSIGN_OR_RETURN(const auto base,
                           artifacts_.ModelVersion(model->id.digest, plan, [&] { return Fetch(caller, model->id); }));
  // A trainer is kept from task to task: its buffers and programs are those of the plan.
  if (trainer_ == nullptr || trainer_plan_ != task.plan) {
    trainer_.reset();  // its buffers go before the next one's come
    RIVULET_ASSIGN_OR_RETURN(trainer_, Trainer::Create(artifacts->programs, options_.instruments.steps));
    trainer_plan_ = task.plan;
  }
  const DatasetExamples examples(artifacts->examples->Of(data.dataset), data.indices);
  fetching.End();
  TraceSpan training(tracer, "phase", "train");
  training.Arrow(Tracer::Flow::kStep, Tracer::kTask, task.id);
  const LaneTask lane{&task, caller.name, base.get(), &examples};
  RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, trainer_->Train({&lane, 1}, stop_.token()));
  LocalResult& result = results[0];
  RIVULET_RETURN_IF_ERROR(result.status);
  training.Arg("examples", result.examples);
  training.Arg("steps", result.steps);
  training.Arg("train_loss", result.train_loss);
  return std::move(result);
}

StatusOr<TaskReport> TaskRunner::Run(const Caller& caller, const Task& task, const BoundData& data) {
  Tracer* const tracer = options_.instruments.tracer;
  if (tracer == nullptr) return Perform(caller, task, data);
  // Twice: on the row of the thread that works, around its phases, and on the client's own row.
  const TraceRow client = tracer->Row("clients", caller.name);
  const int64_t begin = ProfileNanos();
  TraceSpan span(tracer, "task", caller.name);
  StatusOr<TaskReport> report = Perform(caller, task, data);
  const std::string round = fmt::format("round {}", task.base_version + 1);
  const std::string_view outcome = report.ok() ? Name(report->kind) : "stopped";
  span.Arg("task", task.id);
  span.Arg("round", task.base_version + 1);
  span.Arg("outcome", outcome);
  span.End();
  std::vector<TraceArg> args = {{"task", std::string_view(task.id)}, {"outcome", outcome}};
  if (report.ok()) {
    args.push_back({"examples", report->examples});
    args.push_back({"steps", report->steps});
    args.push_back({"train_loss", report->train_loss});
    args.push_back({"bytes_up", report->bytes_up});
    if (!report->reason.empty()) args.push_back({"reason", std::string_view(report->reason)});
  }
  tracer->Complete(client, "client", round, begin, ProfileNanos(), args);
  return report;
}

// A task always ends in one of two ways: with an update, or with a sentence to the coordinator, which would otherwise
// wait for this client until its deadline. Only a client that is being stopped says nothing, since it may come back to
// the same task.
StatusOr<TaskReport> TaskRunner::Perform(const Caller& caller, const Task& task, const BoundData& data) {
  TaskReport report;
  StatusOr<LocalResult> trained = FetchAndTrain(caller, task, data);
  Status status = trained.status();
  if (trained.ok()) {
    report.examples = trained->examples;
    report.steps = trained->steps;
    report.train_loss = trained->train_loss;
    report.train_seconds = trained->train_seconds;
    const std::string update = WriteUpdate(task.id, *trained);
    report.bytes_up = static_cast<int64_t>(update.size());
    TraceSpan uploading(options_.instruments.tracer, "phase", "upload");
    uploading.Arg("bytes", report.bytes_up);
    const StatusOr<SubmitResult> submitted = Submit(caller, task, update);
    uploading.End();
    status = submitted.status();
    if (submitted.ok()) {
      report.kind = submitted->kind == SubmitResult::Kind::kAccepted    ? TaskReport::Kind::kAccepted
                    : submitted->kind == SubmitResult::Kind::kDuplicate ? TaskReport::Kind::kDuplicate
                                                                        : TaskReport::Kind::kRefused;
      report.reason = submitted->reason;
      return report;
    }
  }
  if (stop_.stopped()) return Cancelled("stopped");
  if (TurnedAway(status)) return status;
  report.reason = std::string(Sentence(Message(status)));  // a row and a log line have no room for drawings
  if (absl::IsNotFound(status) && trained.ok()) {          // the task went while this client trained
    report.kind = TaskReport::Kind::kGone;
    return report;
  }
  report.kind = TaskReport::Kind::kFailed;
  Backoff backoff(options_.backoff, caller.name);
  for (;;) {
    const Status told = api_.Fail(caller, {task.id, report.reason});
    if (told.ok()) return report;
    if (absl::IsNotFound(told)) {
      report.kind = TaskReport::Kind::kGone;
      return report;
    }
    if (!Pause(told, backoff)) return stop_.stopped() ? Status(Cancelled("stopped")) : told;
  }
}

}  // namespace rivulet
