#include "coordinator/run_coordinator.h"

#include <utility>

#include "coordinator/base_reader.h"
#include "engine/profile/tracer.h"
#include "federated/transport/blob_reader.h"
#include "federated/transport/record_blobs.h"

namespace rivulet {

// A part with a reference to a later one uses it only from the run's thread or in calls, not in its constructor.
RunCoordinator::RunCoordinator(CoordinatorSetup setup)
    : setup_(std::move(setup)),
      clock_(setup_.options.now_ms),
      history_(std::move(setup_.history)),
      events_(setup_.run_id, setup_.options.observer, history_, clock_, [this] { rounds_.Wake(); }),
      versions_(std::move(setup_.current), std::move(setup_.before)),
      intake_(
          setup_.models->folder(), setup_.options.scenario.server.staging_megabytes * 1'000'000,
          [this] { return rounds_.stopped(); }, setup_.options.tracer),
      // Each is synced: the next write may be a version that names it.
      states_(setup_.run_id, setup_.parts, setup_.options.names_states,
              setup_.parts.keeps_state ? NewStateStore(setup_.file_system(), FolderOf(setup_.models->folder()), true)
                                       : nullptr,
              setup_.folded, setup_.machine->oldest_to_measure()),
      reports_(setup_.run_id, setup_.options.scenario.server.checkpoint_reports, setup_.resumed, setup_.parts,
               setup_.file_system(), setup_.models->folder(), history_, events_, rounds_,
               [this] { return closer_.Flush(); }),
      clients_(setup_.run_id, setup_.options, setup_.parts, setup_.resumed, history_, clock_, events_,
               intake_.distrusted(), rounds_),
      rounds_(setup_.run_id, setup_.options, setup_.parts, setup_.number_rule.get(), *std::move(setup_.machine),
              setup_.resumed, versions_.current()->row.round + 1,
              {clock_, events_, versions_, intake_, states_, reports_, clients_}),
      records_(history_->Records(setup_.run_id).value_or(std::vector<RecordRow>())),
      closer_(setup_, {clock_, history_, events_, versions_, states_, reports_, clients_, rounds_, records_}) {
  reports_.FindPartials(rounds_.Round());
  thread_ = std::thread([this] { RunThread(); });
}

// The last callbacks may still be queued when the thread has ended; the observer must receive the end of the
// run.
RunCoordinator::~RunCoordinator() {
  Stop();
  thread_.join();
  events_.Drain();
}

Status RunCoordinator::CheckCaller(const Caller& caller) const {
  if (!caller.run_id.empty() && caller.run_id != setup_.run_id) {
    return NotFound("this coordinator serves run '{}', not '{}'", setup_.run_id, caller.run_id);
  }
  return absl::OkStatus();
}

StatusOr<PollReply> RunCoordinator::Poll(const PollRequest& request) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(request.caller));
  // A simulation's sites are in its own process, and hold all its clients' secrets. An aggregator has none of them.
  if (setup_.parts.steps > 1 && request.serves.kind == Serves::Kind::kAny && setup_.options.enforce_deadline) {
    return FailedPrecondition(
        "'{}' trains for other clients, and this run's secure aggregation needs each client's own secrets; connect the "
        "clients themselves",
        request.caller.name);
  }
  StatusOr<PollReply> reply = clients_.Poll(request);
  events_.Drain();
  return reply;
}

StatusOr<Blob> RunCoordinator::Find(const Caller& caller, const BlobId& blob) {
  const auto whole = [](std::shared_ptr<const std::string> bytes) {
    return Blob{std::ssize(*bytes),
                [bytes](int64_t from) { return std::as_bytes(std::span(*bytes)).subspan(static_cast<size_t>(from)); }};
  };
  if (blob.form == kHeadForm || blob.form == kReceiptForm) {
    RIVULET_ASSIGN_OR_RETURN(
        std::string text, blob.form == kHeadForm ? records_.HeadAfter(blob.digest) : records_.ReceiptOf(blob.digest));
    return whole(std::make_shared<const std::string>(std::move(text)));
  }
  if (blob.form == BlobId::Form::kState) {
    RIVULET_ASSIGN_OR_RETURN(std::string state, rounds_.ReadState(caller, blob));
    return whole(std::make_shared<const std::string>(std::move(state)));
  }
  if (auto input = rounds_.StepInput(caller, blob); input != nullptr) return whole(std::move(input));
  if (blob == BlobId{BlobId::Form::kBytes, setup_.parts.plan_digest}) return whole(setup_.parts.plan);
  if (std::optional<Blob> bytes = versions_.Read(blob)) return *std::move(bytes);
  return NotFound("this coordinator has no blob {}, or no longer; poll for the current task", blob.digest.Hex());
}

StatusOr<std::unique_ptr<ChunkReader>> RunCoordinator::Fetch(const Caller& caller, const BlobId& blob, int64_t offset) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(caller));
  if (blob.form == BlobId::Form::kBase) return FetchBase(caller, blob.digest, offset);
  RIVULET_ASSIGN_OR_RETURN(Blob found, Find(caller, blob));
  if (offset < 0 || offset > found.bytes) {
    return OutOfRange("offset {} is not within the {} bytes of blob {}", offset, found.bytes, blob.digest.Hex());
  }
  return std::make_unique<BlobReader>(std::move(found), offset, rounds_.DownloadCounter(caller.name));
}

StatusOr<std::unique_ptr<ChunkReader>> RunCoordinator::FetchBase(const Caller& caller, const Digest& digest,
                                                                 int64_t offset) {
  const std::shared_ptr<const Base>& base = setup_.options.base;
  if (base == nullptr || base->digest() != digest) {
    return NotFound("this coordinator has no base {}; poll for the current task", digest.Hex());
  }
  if (!setup_.options.scenario.server.serve_base) {
    return FailedPrecondition(
        "this coordinator does not send its base (server.serve_base = false); start the client with its own copy of "
        "base {}",
        digest.Hex());
  }
  if (offset < 0 || offset > base->travel_bytes()) {
    return OutOfRange("offset {} is not within the {} bytes of base {}", offset, base->travel_bytes(), digest.Hex());
  }
  return std::make_unique<BaseReader>(base, offset, rounds_.DownloadCounter(caller.name));
}

StatusOr<std::unique_ptr<ChunkWriter>> RunCoordinator::Submit(const Caller& caller, const Submission& submission) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(caller));
  StatusOr<std::unique_ptr<ChunkWriter>> writer = rounds_.Submit(caller, submission);
  events_.Drain();
  if (setup_.options.tracer != nullptr) {
    setup_.options.tracer->Counter("staging bytes", static_cast<double>(intake_.memory_in_use()));
  }
  return writer;
}

Status RunCoordinator::Fail(const Caller& caller, const TaskFailure& failure) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(caller));
  Status status = rounds_.Fail(caller, failure);
  events_.Drain();
  return status;
}

void RunCoordinator::AwaitWork(const Caller&, uint64_t epoch, int64_t timeout_ms) {
  rounds_.AwaitWork(epoch, timeout_ms);
}

StatusOr<SubmitResult> RunCoordinator::SubmitInPlace(const Caller& caller, Partial&& partial,
                                                     std::span<const TaskRecord> records) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(caller));
  for (const TaskRecord& record : records) {
    if (!partial.tasks.contains(record.task)) {
      return InvalidArgument("the partial sum of site '{}' has a record of task '{}' and no update of it", caller.name,
                             record.task);
    }
  }
  if (partial.tasks.size() != records.size()) {
    return InvalidArgument("the partial sum of site '{}' has {} updates and {} records; each update needs one",
                           caller.name, partial.tasks.size(), records.size());
  }
  return rounds_.MergePartial(caller.name, std::move(partial), records);
}

StatusOr<std::shared_ptr<const Model>> RunCoordinator::FetchInPlace(const Caller& caller, const BlobId& blob) {
  RIVULET_RETURN_IF_ERROR(CheckCaller(caller));
  const Versions::Version version = blob.form == BlobId::Form::kModel ? versions_.Find(blob.digest) : nullptr;
  if (version != nullptr) return version->sent;
  return NotFound("this coordinator has no model {}, or no longer; poll for the current task", blob.digest.Hex());
}

Status RunCoordinator::Wait() {
  (void)rounds_.Begin();
  return events_.WaitUntilEnd();
}

void RunCoordinator::Stop() {
  rounds_.Stop();
  events_.Drain();
}

void RunCoordinator::Steer(Steering steering) {
  rounds_.Steer(steering);
  events_.Drain();
}

bool RunCoordinator::Remove(const std::string& client_id, const std::string& reason) {
  const bool known = clients_.Remove(client_id, reason);
  events_.Drain();
  return known;
}

void RunCoordinator::LoseSite(const std::string& site) {
  rounds_.LoseSite(site);
  events_.Drain();
}

void RunCoordinator::RunThread() {
  if (setup_.options.tracer != nullptr) setup_.options.tracer->NameThread("commits");
  while (std::optional<Rounds::Work> work = rounds_.Next()) {
    if (auto* const job = std::get_if<AttemptJob>(&*work)) {
      closer_.Close(std::move(*job));
    } else {
      reports_.Count(std::get<LeftReport>(*work));
      rounds_.Counted();
    }
  }
  clients_.WhileNobodyJoins([] {});
  EndRun();
  (void)events_.WaitUntilEnd();
}

// A run's reported end is durable, and so is the round that a stopped run names.
void RunCoordinator::EndRun() {
  const Status written = closer_.Flush();
  const Rounds::Ending ending = rounds_.ending();
  const RunMachine::Phase phase = written.ok() ? ending.phase : RunMachine::Phase::kFailed;
  const std::string reason = written.ok() ? ending.reason : std::string(Message(written));
  const int64_t round = ending.round;
  Status result;
  if (phase == RunMachine::Phase::kFailed) {
    result = ending.failure.ok() ? Aborted("{}", reason) : ending.failure;
  } else if (phase == RunMachine::Phase::kStopped) {
    result = Cancelled("the run was stopped after round {}; it can be resumed", round);
  }
  // The run has ended, so uploads under way are cancelled.
  intake_.CancelAll("the run has ended");
  if (phase == RunMachine::Phase::kFinished) {
    ReportStore::RemoveAll(setup_.file_system(), setup_.models->folder());
  }
  clients_.TellRestOfRefusals();
  if (phase == RunMachine::Phase::kFailed) {
    // If the reason is a full disk, this write fails too; the run's rows then say that it was running.
    const EventRow event = events_.Note("error", reason, round + 1);
    history_->EndRun(setup_.run_id, "failed", reason, event.at, std::span(&event, 1)).IgnoreError();
  } else if (phase == RunMachine::Phase::kStopped) {
    const EventRow event = events_.Note("info", fmt::format("stopped after round {}", round), round + 1);
    if (const Status status = history_->EndRun(setup_.run_id, "interrupted", "", event.at, std::span(&event, 1));
        !status.ok()) {
      result = Cancelled("{}; the history could not be written: {}", Message(result), Message(status));
    }
  }

  history_.Close();
  events_.End(result);
}

}  // namespace rivulet
