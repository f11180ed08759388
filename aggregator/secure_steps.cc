// Secure aggregation through an aggregator: answers to steps go up as they came, and the masked words of its clients
// are added here. It reads neither. Clients whose words are lost here drop out of the sum.
#include <algorithm>

#include "aggregator/aggregator.h"
#include "client/calls/send_submission.h"
#include "coordinator/intake/chunk_writers.h"
#include "federated/aggregation/sum_words.h"
#include "federated/secure/messages.h"
#include "federated/secure/protocol.h"

namespace rivulet {
namespace {

SubmitResult NotTaken(std::string_view reason) { return {SubmitResult::Kind::kRefused, std::string(reason)}; }

std::unique_ptr<ChunkWriter> TakenBefore() {
  return std::make_unique<DecidedWriter>(SubmitResult{SubmitResult::Kind::kDuplicate, ""});
}

}  // namespace

// Null: its sums are plain, or need no steps.
const secure::SecureProtocol* Aggregator::ProtocolOf(const Task& task) const {
  const auto plan = plans_.find(task.plan);
  if (plan == plans_.end() || !plan->second.of(task.kind).secure.on()) return nullptr;
  const auto protocol = secure::FindSecureProtocol(plan->second.of(task.kind).secure.protocol);
  return protocol.ok() && (*protocol)->steps > 1 ? *protocol : nullptr;
}

// The parent gives a task again when its next step has begun.
bool Aggregator::BeginNextStep(Job& job, const Task& task) {
  if (task.step <= job.task.step) return false;
  job.task = task;
  job.stage = Job::Stage::kFetched;
  job.held_below = job.brought = false;
  return true;
}

bool Aggregator::MayFetch(const Caller& caller, const BlobId& blob) const {
  bool is_input = false;
  for (const auto& [task, job] : jobs_) {
    const NamedBlob* const input = job.task.input("step");
    if (input == nullptr || input->id != blob) continue;
    if (WayOf(job.task.client_id) == caller.name) return true;
    is_input = true;
  }
  return !is_input;
}

// The parent had an answer before its sender was told so. Words may have been lost with a process: whether they were
// shows when the parent asks for them.
void Aggregator::NoteAnswered(Job& job, bool below) {
  const secure::SecureProtocol* const protocol = ProtocolOf(job.task);
  if (protocol == nullptr || job.stage != Job::Stage::kGiven) return;
  if (!below || job.task.step != protocol->sum_step) job.stage = Job::Stage::kAnswered;
}

StatusOr<Intake::Begun> Aggregator::BeginStepAnswer(const Caller& caller, const Submission& submission) {
  const TaskId& task = submission.task;
  Job* const job = JobOf(caller, task);
  if (job == nullptr) return WhereTaskIsUnknown(caller, task);
  const secure::SecureProtocol* const protocol = ProtocolOf(job->task);
  if (protocol == nullptr || submission.step < 0 || submission.step >= protocol->steps) {
    return InvalidArgument("task '{}' has no step {} of secure aggregation", task, submission.step);
  }
  if (submission.step < job->task.step || job->stage > Job::Stage::kFolding) return TakenBefore();
  if (submission.step > job->task.step) return NotFound("task '{}' is at step {}", task, job->task.step);
  if (job->stage == Job::Stage::kFetched)
    return Unavailable("the input of task '{}' is being fetched; ask again", task);
  if (job->stage == Job::Stage::kFolding) return Unavailable("this answer is being taken; ask again");
  job->heard = true;
  const AggregationSpec& spec = plans_.at(job->task.plan).of(job->task.kind);
  const bool sums = submission.step == protocol->sum_step;
  const auto most = static_cast<int64_t>(
      sums ? SumWords(spec).bytes()
           : secure::MostAnswerBytes(submission.step, static_cast<size_t>(spec.updates_per_version)));
  if (std::string why = WrongSize("an answer to a step", submission.bytes, most); !why.empty()) {
    FailUp({.task = task, .code = TaskFailure::Code::kBadUpdate});
    return RefusedWriter(std::move(why));
  }
  return intake_.BeginBytes(task, submission, [this, submission, sums](std::span<const std::byte> bytes) {
    return sums ? TakeWords(submission, bytes) : RelayAnswer(submission, bytes);
  });
}

// Its client is told what the parent says: an answer that an aggregator had taken and lost could not be made again.
StatusOr<SubmitResult> Aggregator::RelayAnswer(const Submission& submission, std::span<const std::byte> bytes) {
  Caller caller;
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(submission.task);
    if (job == jobs_.end() || job->second.task.step != submission.step) return NotTaken("its step has ended");
    if (job->second.stage > Job::Stage::kGiven) return Unavailable("this answer is being taken; ask again");
    job->second.stage = Job::Stage::kFolding;
    caller = Request().caller;
  }
  BlockCrcs crcs;
  crcs.Append(bytes);
  const StatusOr<SubmitResult> result = SendSubmission(parent_, caller, submission, bytes, crcs);
  const bool ended = absl::IsNotFound(result.status()) || absl::IsAborted(result.status()) ||
                     (result.ok() && result->kind == SubmitResult::Kind::kRefused);
  MutexLock lock(mutex_);
  const auto job = jobs_.find(submission.task);
  if (job != jobs_.end() && job->second.task.step == submission.step) {
    if (ended) {
      Erase(submission.task);
    } else {
      job->second.stage = result.ok() ? Job::Stage::kAnswered : Job::Stage::kGiven;
    }
  }
  if (absl::IsPermissionDenied(result.status())) return Unavailable("{}", Message(result.status()));
  return result;
}

StatusOr<SubmitResult> Aggregator::TakeWords(const Submission& submission, std::span<const std::byte> bytes) {
  const TaskId& task = submission.task;
  std::shared_ptr<Gathering> gathering;
  Task of;
  int word_bits = 0;
  {
    MutexLock lock(mutex_);
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.task.step != submission.step) return NotTaken("its step has ended");
    if (job->second.stage > Job::Stage::kGiven) return Unavailable("these words are being added; ask again");
    of = job->second.task;
    word_bits = plans_.at(of.plan).of(of.kind).sum_bits();
    gathering = OpenWords(of);
    ++gathering->folding;
    job->second.stage = Job::Stage::kFolding;
  }
  AddTo(*gathering, bytes, word_bits);
  MutexLock lock(mutex_);
  return Hold(*gathering, of, std::span(&task, 1)) ? SubmitResult{} : NotTaken("its step has ended");
}

std::shared_ptr<Aggregator::Gathering> Aggregator::OpenWords(const Task& task) {
  std::shared_ptr<Gathering>& gathering = gatherings_[task.gather];
  if (gathering == nullptr) {
    gathering = std::make_shared<Gathering>();
    gathering->base_version = task.base_version;
    gathering->words.resize(SumWords(plans_.at(task.plan).of(task.kind)).bytes());
  }
  return gathering;
}

void Aggregator::AddTo(Gathering& gathering, std::span<const std::byte> words, int word_bits) {
  MutexLock lock(gathering.words_mutex);
  AddWordsTo(gathering.words, words, word_bits);
}

// Words that were added cannot be told apart any more: where one client's are not wanted, all that were added are lost.
bool Aggregator::Hold(Gathering& gathering, const Task& of, std::span<const TaskId> tasks) {
  --gathering.folding;
  dirty_ = true;
  changed_.NotifyAll();
  const bool wanted = std::ranges::all_of(tasks, [&](const TaskId& task) REQUIRES(mutex_) {
    const auto job = jobs_.find(task);
    return job != jobs_.end() && job->second.task.step == of.step;
  });
  if (wanted && !gathering.gone) {
    for (const TaskId& task : tasks) {
      gathering.records.emplace_back().task = task;
      jobs_.at(task).stage = Job::Stage::kHeld;
    }
    return true;
  }
  if (!gathering.gone) DropGathering(of.gather);
  for (const TaskId& task : tasks) {
    if (jobs_.contains(task)) LoseWords(task);
  }
  return false;
}

void Aggregator::LoseWords(const TaskId& task) {
  FailUp({.task = task, .code = TaskFailure::Code::kNotWilling, .subject = "secure aggregation"});
}

void Aggregator::LoseWordsThatAreGone(const HandOver& wanted) {
  for (const TaskId& task : wanted.tasks) {
    const auto job = jobs_.find(task);
    // The parent may have asked before it had them.
    if (job != jobs_.end() && job->second.stage == Job::Stage::kAnswered && !job->second.brought) LoseWords(task);
  }
}

// Answered, its clients wait for the next step.
Status Aggregator::BringWords(CoordinatorCalls& calls, uint64_t gather, Gathering& gathering) {
  secure::SummedWordsMessage message;
  for (const TaskRecord& record : gathering.records) message.tasks.push_back(record.task);
  Caller caller;
  int step = 0;
  {
    MutexLock lock(mutex_);
    caller = Request().caller;
    const auto job = jobs_.find(message.tasks.at(0));
    if (job != jobs_.end()) step = job->second.task.step;
  }
  std::string bytes;
  {
    MutexLock lock(gathering.words_mutex);
    message.words = gathering.words;
    bytes = BytesOf(message);
  }
  Submission submission;
  submission.kind = Submission::Kind::kPartial;
  submission.gather = gather;
  submission.bytes = std::ssize(bytes);
  const StatusOr<SubmitResult> result =
      calls.Submit(caller, submission, std::make_shared<const std::string>(std::move(bytes)));
  if (absl::IsCancelled(result.status()) || absl::IsPermissionDenied(result.status())) return result.status();
  const bool refused = result.ok() && result->kind == SubmitResult::Kind::kRefused;
  if (!result.ok() || refused) {
    Tell("warning", fmt::format("the words of {} clients are lost: {}", message.tasks.size(),
                                refused ? result->reason : std::string(Message(result.status()))));
  }
  MutexLock lock(mutex_);
  for (const TaskId& task : message.tasks) {
    const auto job = jobs_.find(task);
    if (job == jobs_.end() || job->second.task.step != step) continue;
    if (!result.ok()) {
      LoseWords(task);
    } else if (refused) {
      Erase(task);
    } else {
      job->second.stage = Job::Stage::kAnswered;
      job->second.brought = true;
    }
  }
  dirty_ = true;
  changed_.NotifyAll();
  return absl::OkStatus();
}

StatusOr<Intake::Begun> Aggregator::BeginSummedWords(const Caller& caller, const Submission& submission,
                                                     const Task& one) {
  const AggregationSpec& spec = plans_.at(one.plan).of(one.kind);
  const size_t word_bytes = SumWords(spec).bytes();
  const auto most =
      static_cast<int64_t>(secure::MostSummedWordsBytes(word_bytes, static_cast<size_t>(secure::kMostMembers)));
  if (std::string why = WrongSize("a sum of masked words", submission.bytes, most); !why.empty()) {
    return RefusedWriter(std::move(why));
  }
  return intake_.BeginBytes(fmt::format("words {} of aggregator {}", submission.gather, caller.name), submission,
                            [this, caller, task = one, word_bytes](std::span<const std::byte> bytes) {
                              return TakeSummedWords(caller, task, bytes, word_bytes);
                            });
}

StatusOr<SubmitResult> Aggregator::TakeSummedWords(const Caller& caller, const Task& one,
                                                   std::span<const std::byte> bytes, size_t word_bytes) {
  const StatusOr<secure::SummedWordsMessage> words = secure::ParseSummedWords(bytes, word_bytes);
  std::shared_ptr<Gathering> gathering;
  std::string wrong = words.ok() ? "" : std::string(Message(words.status()));
  int word_bits = 0;
  {
    MutexLock lock(mutex_);
    if (words.ok()) {
      std::set<TaskId> named;
      for (const TaskId& task : words->tasks) {
        const Job* const job = JobOf(caller, task);
        const bool open = job != nullptr && job->task.gather == one.gather && job->task.step == one.step &&
                          (job->stage == Job::Stage::kGiven || job->stage == Job::Stage::kOffered);
        if (!open || !named.insert(task).second) {
          wrong = fmt::format("aggregator '{}' has no task '{}'", caller.name, task);
        }
      }
    }
    if (wrong.empty()) {
      word_bits = plans_.at(one.plan).of(one.kind).sum_bits();
      gathering = OpenWords(one);
      ++gathering->folding;
      for (const TaskId& task : words->tasks) jobs_.at(task).stage = Job::Stage::kFolding;
    }
  }
  if (!wrong.empty()) {
    Tell("warning", fmt::format("the words of aggregator '{}' are refused: {}", caller.name, wrong));
    return NotTaken(wrong);
  }
  AddTo(*gathering, words->words, word_bits);
  MutexLock lock(mutex_);
  return Hold(*gathering, one, words->tasks) ? SubmitResult{} : NotTaken("its step has ended");
}

}  // namespace rivulet
