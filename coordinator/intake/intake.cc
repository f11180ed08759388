#include "coordinator/intake/intake.h"

#include <cmath>
#include <optional>

#include "engine/base/check.h"
#include "federated/codecs/codec.h"
#include "federated/updates/task_columns.h"
#include "federated/updates/update_message.h"

namespace rivulet {

// What is around the parts, framing and scalars, is bounded together; whoever aggregates the parts knows their codecs.
int64_t MostUpdateBytes(const AggregationSpec& spec) {
  int64_t bytes = 64 * 1024;
  for (const PartSpec& part : spec.parts) {
    const auto codec = Codec::Create(part.codec, part.elements, part.codec_settings);
    RIVULET_CHECK(codec.ok(), "{}", Message(codec.status()));
    bytes += (*codec)->MaxBytes();
  }
  return bytes;
}

// Nothing in an update is trusted, and nothing of it is weighed twice: what its identity covers arrived as it was sent,
// and what its values are the fold finds out.
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

StatusOr<Intake::Begun> Intake::Begin(const std::string& key, const Submission& submission) {
  MutexLock lock(mutex_);
  std::shared_ptr<Upload>& upload = uploads_[key];
  if (upload == nullptr) upload = std::make_shared<Upload>(staging_);
  RIVULET_ASSIGN_OR_RETURN(Upload::Turn turn, upload->TakeOver(submission));
  return Begun{upload, std::move(turn)};
}

std::shared_ptr<Upload> Intake::Remove(const std::string& key) {
  MutexLock lock(mutex_);
  const auto found = uploads_.find(key);
  if (found == uploads_.end()) return nullptr;
  std::shared_ptr<Upload> upload = std::move(found->second);
  uploads_.erase(found);
  return upload;
}

void Intake::Cancel(const std::string& key, const std::string& reason) {
  if (const auto upload = Remove(key); upload != nullptr) upload->Cancel(reason);
}

void Intake::CancelAll(const std::string& reason) {
  std::unordered_map<std::string, std::shared_ptr<Upload>> uploads;
  {
    MutexLock lock(mutex_);
    uploads.swap(uploads_);
  }
  for (const auto& [key, upload] : uploads) upload->Cancel(reason);
}

}  // namespace rivulet
