#include "coordinator/intake/intake.h"

#include <cmath>
#include <utility>

#include "coordinator/intake/chunk_writers.h"
#include "engine/base/check.h"
#include "engine/profile/tracer.h"
#include "federated/codecs/codec.h"
#include "federated/updates/task_columns.h"
#include "federated/updates/update_message.h"

namespace rivulet {

// Framing and scalars around the parts have one common bound; the aggregation knows its parts' codecs.
int64_t MostUpdateBytes(const AggregationSpec& spec) {
  int64_t bytes = 64 * 1024;
  for (const PartSpec& part : spec.parts) {
    const auto codec = Codec::Create(part.codec, part.elements, part.codec_settings);
    RIVULET_CHECK(codec.ok(), "{}", Message(codec.status()));
    bytes += (*codec)->MaxBytes();
  }
  return bytes;
}

// Nothing in an update is trusted, and nothing is checked twice: the identity covers its transfer, and the fold checks
// its values.
StatusOr<ArrivedUpdate> ReadUpdate(const Upload::Whole& whole) {
  RIVULET_ASSIGN_OR_RETURN(UpdateMessage message,
                           ParseUpdate({reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size()}));
  ArrivedUpdate update;
  update.parts = std::move(message.parts);
  TaskRecord& record = update.record;
  CopyStated(whole.submission.measured, record);
  if (const auto& seconds = record.train_seconds; seconds && (!std::isfinite(*seconds) || *seconds <= 0)) {
    record.train_seconds.reset();
  }
  ReadDeclared(message.scalars, record);
  if (!record.examples) {
    return InvalidArgument("the update does not declare on how many 'examples' it was trained, a whole number");
  }
  record.task = whole.submission.task;
  record.declared = std::move(message.scalars);
  return update;
}

std::string WrongSize(std::string_view what, int64_t bytes, int64_t most) {
  if (bytes >= 1 && bytes <= most) return "";
  return fmt::format("{} of {} bytes was announced, and those of this plan have 1 to {}", what, bytes, most);
}

std::unique_ptr<ChunkWriter> RefusedWriter(std::string reason) {
  return std::make_unique<DecidedWriter>(SubmitResult{SubmitResult::Kind::kRefused, std::move(reason)});
}

// The upload has its key before its room is reserved, so an owner that resolves the task meanwhile can cancel it.
Intake::Begun Intake::Begin(const std::string& key, const Submission& submission, TakeWhole take) {
  std::shared_ptr<Upload> upload;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<Upload>& known = uploads_[key];
    if (known == nullptr) known = std::make_shared<Upload>(staging_);
    upload = known;
  }
  return Begun([this, key, upload = std::move(upload), submission,
                take = std::move(take)]() -> StatusOr<std::unique_ptr<ChunkWriter>> {
    CloseDiscarded();
    StatusOr<Upload::Turn> turn = upload->TakeOver(submission);
    if (absl::IsAborted(turn.status())) {
      RIVULET_ASSIGN_OR_RETURN(SubmitResult result, ResultOf(turn.status()));
      return std::make_unique<DecidedWriter>(std::move(result));
    }
    RIVULET_RETURN_IF_ERROR(turn.status());
    return std::make_unique<StagedWriter>(upload, *std::move(turn),
                                          [this, key, take](Upload& of, int64_t writer, const Digest& identity) {
                                            return End(key, of, writer, identity, take);
                                          });
  });
}

StatusOr<SubmitResult> Intake::ResultOf(const Status& cancelled) const {
  if (stopped_ && stopped_()) return Unavailable("{}", Message(cancelled));
  return SubmitResult{SubmitResult::Kind::kRefused, std::string(Message(cancelled))};
}

StatusOr<SubmitResult> Intake::End(const std::string& key, Upload& upload, int64_t writer, const Digest& identity,
                                   const TakeWhole& take) {
  const StatusOr<Upload::Whole> whole = upload.Complete(writer, identity);
  if (absl::IsAborted(whole.status())) return ResultOf(whole.status());
  RIVULET_RETURN_IF_ERROR(whole.status());
  bool released = false;
  const auto release = [&] {
    if (std::exchange(released, true)) return;
    upload.Release();
    (void)Remove(key, &upload);
  };
  StatusOr<SubmitResult> result = take(*whole, release);
  release();
  CloseDiscarded();
  if (tracer_ != nullptr) tracer_->Counter("staging bytes", static_cast<double>(memory_in_use()));
  return result;
}

Intake::Begun Intake::BeginUpdate(const Submission& submission, TakeUpdate take) {
  const auto& [task, step, bytes, measured, kind, gather] = submission;
  return Begin(
      step == 0 ? task : fmt::format("step {} of {}", step, task), submission,
      [take = std::move(take)](const Upload::Whole& whole, const Release&) { return take(whole, ReadUpdate(whole)); });
}

Intake::Begun Intake::BeginPartial(const std::string& key, const Caller& site, const Submission& submission,
                                   AggregationSpec spec, int64_t base_version, TakePartial take, SumFiles* files) {
  return Begin(key, submission,
               [this, site, spec = std::move(spec), base_version, take = std::move(take), files](
                   const Upload::Whole& whole, const Release& release) -> StatusOr<SubmitResult> {
                 TraceSpan reading(tracer_, "phase", "read partial");
                 reading.Arg("bytes", std::ssize(whole.bytes));
                 StatusOr<SitePartial> partial = ReadSitePartial(whole.bytes, spec, base_version, files);
                 reading.End();
                 if (absl::IsResourceExhausted(partial.status()) || absl::IsInternal(partial.status())) {
                   return Unavailable("{}", Message(partial.status()));  // a fault of this machine's disk
                 }
                 if (!partial.ok()) distrusted_.Add(site, std::string(Message(partial.status())));
                 return take(std::move(partial), whole.bytes, release);
               });
}

Intake::Begun Intake::BeginBytes(const std::string& key, const Submission& submission, TakeBytes take) {
  return Begin(key, submission,
               [take = std::move(take)](const Upload::Whole& whole, const Release&) { return take(whole.bytes); });
}

Intake::Begun Intake::BeginState(const std::string& key, const Submission& submission, TakeState take) {
  return Begin(key, submission, [take = std::move(take)](const Upload::Whole& whole, const Release& release) {
    std::string state(reinterpret_cast<const char*>(whole.bytes.data()), whole.bytes.size());
    release();
    return take(std::move(state));
  });
}

std::shared_ptr<Upload> Intake::Remove(const std::string& key, const Upload* only) {
  MutexLock lock(mutex_);
  const auto found = uploads_.find(key);
  if (found == uploads_.end() || (only != nullptr && found->second.get() != only)) return nullptr;
  std::shared_ptr<Upload> upload = std::move(found->second);
  uploads_.erase(found);
  return upload;
}

void Intake::Discard(Upload& upload, const std::string& reason) {
  std::unique_ptr<StagedBytes> bytes = upload.Cancel(reason);
  if (bytes == nullptr || !bytes->on_disk()) return;
  MutexLock lock(mutex_);
  discarded_.push_back(std::move(bytes));
}

void Intake::CloseDiscarded() {
  std::vector<std::unique_ptr<StagedBytes>> discarded;
  MutexLock lock(mutex_);
  discarded.swap(discarded_);
}

void Intake::Cancel(const std::string& key, const std::string& reason) {
  if (const auto upload = Remove(key); upload != nullptr) Discard(*upload, reason);
}

void Intake::CancelAll(const std::string& reason) {
  std::unordered_map<std::string, std::shared_ptr<Upload>> uploads;
  {
    MutexLock lock(mutex_);
    uploads.swap(uploads_);
  }
  for (const auto& [key, upload] : uploads) Discard(*upload, reason);
}

}  // namespace rivulet
