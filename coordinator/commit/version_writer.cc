#include "coordinator/commit/version_writer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "engine/base/check.h"
#include "engine/profile/tracer.h"

namespace rivulet {
namespace {

constexpr TimeMs kSecond = 1000;
// that may be pending under "round", besides one being written, while the run continues
constexpr int64_t kVersionsAhead = 2;

// Memory of a pending attempt. Its model counts if it must be written: otherwise the next one replaces it, and the
// newest is in memory anyway.
int64_t BytesOf(const PendingAttempt& pending, bool keep_all_models) {
  int64_t bytes = static_cast<int64_t>(sizeof(PendingAttempt) + pending.seen.size() * sizeof(pending.seen[0]) +
                                       pending.packed.bytes());
  for (const auto& [lease, facts] : pending.attempt.tasks) {
    bytes += static_cast<int64_t>(sizeof(lease) + sizeof(facts) + lease.task.size() + lease.client_id.size() +
                                  lease.reason.size());
  }
  if (keep_all_models && pending.version) bytes += pending.version->row.bytes;
  return bytes;
}

}  // namespace

Durability DurabilityOf(std::string_view name) {
  if (name == "round") return Durability::kRound;
  if (name == "second") return Durability::kSecond;
  RIVULET_CHECK(name == "end", "{}", name);
  return Durability::kEnd;
}

std::optional<double> WorthOf(const std::map<std::string, Measure>& central) {
  for (const std::string_view name : kJudgingMetrics) {
    const auto measure = central.find(std::string(name));
    if (measure != central.end()) return LowerIsBetter(name) ? -measure->second.value : measure->second.value;
  }
  return std::nullopt;
}

VersionWriter::VersionWriter(History& history, ModelStore& store, std::unique_ptr<Executor> executor, Clock& clock,
                             Options options, std::span<const ModelRow> models, int64_t last)
    : history_(history),
      store_(store),
      clock_(clock),
      options_(std::move(options)),
      newest_(last),
      without_log_from_(last),
      without_log_to_(last),
      executor_(std::move(executor)) {
  for (const ModelRow& model : models) {
    if (!model.path.empty()) named_.insert(model.round);
  }
  files_ = named_;
  for (const auto& [round, worth] : options_.worths) {
    if (named_.contains(round) && (!best_written_ || worth > best_written_->worth)) best_written_ = {round, worth};
  }
  best_ = best_written_;
  if (options_.tracer != nullptr) executor_->Run([this] { options_.tracer->NameThread("writes"); });
}

std::optional<VersionWriter::BestVersion> VersionWriter::BetterOf(const std::optional<BestVersion>& best,
                                                                  const PendingAttempt& pending) const {
  if (!options_.keep_best_model || !pending.version) return best;
  const std::optional<double> worth = WorthOf(pending.end.central);
  if (!worth || (best && *worth <= best->worth)) return best;
  return BestVersion{pending.attempt.round, *worth};
}

bool VersionWriter::TooMuch() const {
  if (options_.durability == Durability::kRound) return pending_.versions + writing_versions_ > kVersionsAhead;
  return pending_.bytes + writing_bytes_ > 2 * options_.most_pending_bytes;
}

void VersionWriter::Add(PendingAttempt attempt) {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  const int64_t bytes = BytesOf(attempt, options_.keep_all_models);
  if (attempt.version) {
    ++pending_.versions;
    best_ = BetterOf(best_, attempt);
    if (!options_.keep_all_models) {
      for (PendingAttempt& earlier : pending_.attempts) {
        if (!earlier.version || std::ranges::find(attempt.needed, earlier.version->row.round) != attempt.needed.end()) {
          continue;
        }
        if (best_ && earlier.version->row.round == best_->round) continue;
        earlier.version->model.reset();
        earlier.version->flats.reset();
        earlier.version->file.reset();
        earlier.version->whole.reset();
      }
    }
  }
  if (!attempt.snapshot.empty()) {
    for (PendingAttempt& earlier : pending_.attempts) earlier.snapshot.clear();
  }
  if (pending_.attempts.empty()) {
    oldest_ = clock_.Now();
    if (options_.durability == Durability::kSecond) executor_->RunAt(oldest_ + kSecond, [this] { WriteIfDue(); });
  }
  pending_.attempts.push_back(std::move(attempt));
  pending_.bytes += bytes;
  if (options_.durability == Durability::kRound || pending_.bytes > options_.most_pending_bytes) {
    executor_->Run([this] { WriteIfDue(); });
  }
  while (failure_.ok() && TooMuch()) {
    if (writing_) {
      changed_.Wait(mutex_);
    } else {
      WriteNow();
    }
  }
}

Status VersionWriter::Flush() {
  MutexLock lock(mutex_);
  while (failure_.ok() && (writing_ || !pending_.attempts.empty())) {
    if (writing_) {
      changed_.Wait(mutex_);
    } else {
      WriteNow();
    }
  }
  if (!failure_.ok()) return failure_;
  writing_ = true;
  mutex_.Unlock();
  BringOver();
  mutex_.Lock();
  writing_ = false;
  changed_.NotifyAll();
  return absl::OkStatus();
}

void VersionWriter::WriteIfDue() {
  MutexLock lock(mutex_);
  // The present writer continues with new attempts: a job that comes meanwhile waits for its turn.
  while (writing_) changed_.Wait(mutex_);
  if (!failure_.ok() || pending_.attempts.empty()) return;
  const bool much = pending_.bytes > options_.most_pending_bytes;
  const bool late = options_.durability == Durability::kSecond && clock_.Now() >= oldest_ + kSecond;
  if (much || late || options_.durability == Durability::kRound) WriteNow();
}

void VersionWriter::WriteNow() {
  Batch batch = std::exchange(pending_, {});
  writing_ = true;
  writing_versions_ = batch.versions;
  writing_bytes_ = batch.bytes;
  mutex_.Unlock();
  const Status status = Write(batch.attempts);
  if (status.ok() && options_.on_written) options_.on_written(batch.attempts);
  batch = {};
  mutex_.Lock();
  writing_ = false;
  writing_versions_ = writing_bytes_ = 0;
  if (!status.ok()) failure_ = status;
  changed_.NotifyAll();
  if (status.ok() || !options_.on_failed) return;
  mutex_.Unlock();
  options_.on_failed(status);
  mutex_.Lock();
}

// Waits only for other processes: they end their transactions some time, while a full or damaged disk stays
// so.
Status VersionWriter::Write(std::span<PendingAttempt> attempts) {
  TraceSpan writing(options_.tracer, "phase", "write");
  writing.Arg("attempts", static_cast<int64_t>(attempts.size()));
  Status status = Commit(attempts);
  for (int tries = 0; absl::IsUnavailable(status); ++tries) {
    if (tries % 10 == 0) fmt::print(stderr, "{}; trying again\n", Message(status));
    std::this_thread::sleep_for(std::chrono::milliseconds(kSecond));
    status = Commit(attempts);
  }
  if (!status.ok()) return status;
  // It syncs a second file, so not after every short round.
  if (brought_over_ == 0 || clock_.Now() - brought_over_ >= kSecond) BringOver();
  RemoveFiles();
  return absl::OkStatus();
}

Status VersionWriter::Commit(std::span<PendingAttempt> attempts) {
  const auto version = std::find_if(attempts.rbegin(), attempts.rend(),
                                    [](const PendingAttempt& pending) { return pending.version.has_value(); });
  const bool any = version != attempts.rend();
  const int64_t newest = any ? version->attempt.round : newest_;
  const auto annotate = [&](const Status& status) {
    return any ? Annotate(status, fmt::format("round {} cannot be committed", newest)) : status;
  };
  std::optional<BestVersion> best = best_written_;
  for (const PendingAttempt& pending : attempts) best = BetterOf(best, pending);
  std::optional<records::RecordChain> chain;
  if (options_.records != nullptr) chain = options_.records->chain();
  std::vector<std::optional<ModelRow>> models;  // of each attempt
  std::vector<int64_t> written;
  for (PendingAttempt& pending : attempts) {
    if (!pending.snapshot.empty()) {
      needed_ = {pending.needed.begin(), pending.needed.end()};
    } else if (pending.end.finishes_run) {
      needed_.clear();
    }
    std::optional<ModelRow>& model = models.emplace_back();
    if (!pending.version) continue;
    model = pending.version->row;
    const auto write = [&]() -> Status {
      if (chain) {
        RIVULET_ASSIGN_OR_RETURN(pending.record, options_.records->Make({.version = pending.attempt.round,
                                                                         .made_ms = pending.end.finished_unix_ms,
                                                                         .model = *pending.end.model_digest,
                                                                         .updates = pending.updates,
                                                                         .privacy = pending.privacy},
                                                                        *chain));
      }
      if (pending.version->model == nullptr) {
        model->path.clear();
        return absl::OkStatus();
      }
      RIVULET_RETURN_IF_ERROR(store_.Write(*pending.version, pending.record ? pending.record->digest : ""));
      written.push_back(pending.attempt.round);
      return absl::OkStatus();
    };
    if (const Status status = write(); !status.ok()) {
      // No row names them.
      for (const int64_t round : written) store_.Remove(round).IgnoreError();
      return annotate(status);
    }
  }
  // The two newest stay, so a run survives the loss of the newest file.
  std::vector<int64_t> forget;
  if (any && !options_.keep_all_models) {
    forget.assign(named_.begin(), named_.end());
    if (!forget.empty()) forget.pop_back();
    std::erase_if(forget, [&](int64_t round) { return needed_.contains(round) || (best && round == best->round); });
  }
  // Rows are made when their turn comes: an attempt's rows are then in the cache, and the next ones reuse their memory.
  AttemptRecord record;
  PendingAttempt* lent = nullptr;  // the owner of the record's `seen`: a second try needs it
  const auto give_back = [&] {
    if (lent != nullptr) std::exchange(lent, nullptr)->seen.swap(record.seen);
  };
  size_t next = 0;
  const auto rows_of_next = [&]() -> const AttemptRecord* {
    give_back();
    if (next == attempts.size()) return nullptr;
    PendingAttempt& pending = attempts[next];
    ClosedAttempt unpacked;
    if (!pending.packed.empty()) {
      unpacked = pending.attempt;
      unpacked.tasks = pending.packed.Unpack(unpacked);
    }
    const ClosedAttempt& attempt = pending.packed.empty() ? pending.attempt : unpacked;
    record = RowsOf(attempt, pending.end, pending.row ? *pending.row : RoundOf(attempt, pending.end));
    lent = &pending;
    record.seen.swap(pending.seen);
    if (!pending.snapshot.empty()) record.blobs.push_back({kSnapshotBlob, pending.snapshot});
    record.model = models[next++];
    record.record = pending.record;
    if (record.model && record.round.round == newest) record.forget_models = forget;
    return &record;
  };
  // After an error of the transaction the files stay, since the log may still contain a transaction that failed to
  // sync; the next start removes files without rows.
  if (const Status status = history_.AddAttempts(rows_of_next); !status.ok()) {
    give_back();
    return annotate(status);
  }
  newest_ = newest;
  if (chain) options_.records->SetDurable(*std::move(chain));
  best_written_ = best;
  for (const int64_t round : forget) named_.erase(round);
  named_.insert(written.begin(), written.end());
  files_.insert(written.begin(), written.end());
  return absl::OkStatus();
}

// Not part of a commit: a failed checkpoint is repeated next time.
void VersionWriter::BringOver() {
  brought_over_ = clock_.Now();
  const StatusOr<CheckpointProgress> now = history_.BringOver();
  if (!now.ok()) return;
  PlaceFile(*now);
  TellOfReader(*now);
  RemoveFiles();
}

// A reader that keeps one state for hours, as in a notebook, holds the file at it: newer data stay in the log. The
// version follows from the log's length when each version was the newest. So only the models of the second in which the
// reader began must be kept, not those of all versions.
void VersionWriter::PlaceFile(const CheckpointProgress& now) {
  // The log restarted: all its earlier content is in the file.
  if (!log_.empty() && now.log_pages < log_.back().first) {
    without_log_from_ = log_.back().second;
    log_.clear();
  }
  if (now.whole()) {
    log_.clear();
    without_log_from_ = newest_;
  }
  log_.emplace_back(now.log_pages, newest_);
  without_log_to_ = newest_;
  if (now.pages < 0) return;
  for (const auto& [pages, version] : log_) {
    if (pages <= now.pages) without_log_from_ = std::max(without_log_from_, version);
    if (pages < now.pages) continue;
    without_log_to_ = version;
    break;
  }
  while (log_.size() > 1 && log_[1].first <= now.pages) log_.pop_front();
}

void VersionWriter::TellOfReader(const CheckpointProgress& now) {
  if (now.whole()) {
    held_since_ = told_of_reader_ = 0;
    return;
  }
  if (held_since_ == 0) held_since_ = brought_over_;
  const TimeMs held = brought_over_ - held_since_;
  if (held < std::max(60 * kSecond, 2 * told_of_reader_)) return;
  told_of_reader_ = held;
  if (options_.on_log_held) options_.on_log_held(held / kSecond, now.log_bytes);
}

// A file that cannot be removed now is removed by the next commit or the next start.
void VersionWriter::RemoveFiles() {
  const auto stays = [&](int64_t round) {
    return named_.contains(round) || (round >= without_log_from_ && round <= without_log_to_);
  };
  if (std::ranges::all_of(files_, stays)) return;
  std::unique_ptr<FolderLock> removal;
  if (store_.IsCopied(removal)) return;
  std::erase_if(files_, [&](int64_t round) {
    if (stays(round)) return false;
    store_.Remove(round).IgnoreError();
    return true;
  });
}

}  // namespace rivulet
