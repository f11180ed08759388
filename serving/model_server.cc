#include "serving/model_server.h"

#include <algorithm>
#include <utility>

#include "coordinator/history/history.h"
#include "engine/base/nearest.h"
#include "engine/base/shown_text.h"
#include "engine/program/program.h"

namespace rivulet {

std::string_view Name(VersionState state) {
  constexpr std::string_view kNames[] = {"loading", "warming", "available", "draining", "unloaded", "failed"};
  return kNames[static_cast<size_t>(state)];
}

ModelServer::ModelServer(FileSystem& fs, ModelServerOptions options)
    : fs_(fs), options_(std::move(options)), batcher_(std::make_unique<Batcher>(options_.batch)) {}

StatusOr<std::unique_ptr<ModelServer>> ModelServer::Start(FileSystem& fs, ModelServerOptions options) {
  RIVULET_RETURN_IF_ERROR(CheckBatchOptions(options.batch));
  if (options.names.empty()) return InvalidArgument("no model is named; give --model NAME");
  std::unique_ptr<ModelServer> server(new ModelServer(fs, std::move(options)));
  Status status;
  // Compiling needs EnterWorkerThread, which must not change the caller's thread; the same thread watches later.
  Mutex mutex;
  CondVar loaded;
  bool done = false;
  server->thread_ = std::thread([&, self = server.get()] {
    EnterWorkerThread();
    const Status first = [&]() -> Status {
      for (const NameToServe& served : self->options_.names) {
        RIVULET_RETURN_IF_ERROR(CheckServedName(served.name));
        std::unique_ptr<PointedFiles> files;
        if (!served.fixed) {
          RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(served.db, History::Access::kReadOnly));
          files = std::make_unique<PointedFiles>(self->fs_, history->real_path());
        }
        MutexLock lock(self->mutex_);
        Entry& entry = self->entries_[served.name];
        if (!entry.served.name.empty()) return InvalidArgument("the model '{}' is given twice", served.name);
        entry.served = served;
        entry.files = std::move(files);
      }
      for (const NameToServe& served : self->options_.names) {
        Entry* entry = nullptr;
        {
          MutexLock lock(self->mutex_);
          entry = &self->entries_.at(served.name);
        }
        if (served.fixed) {
          RIVULET_RETURN_IF_ERROR(self->Apply(*entry, {{kStableLabel, {.target = served.fixed->version}}}));
        } else if (!self->histories_.contains(served.db)) {
          RIVULET_ASSIGN_OR_RETURN(self->histories_[served.db], Pointers::Open(served.db, Database::Access::kReadOnly));
          RIVULET_RETURN_IF_ERROR(self->Follow(served.db));
        }
        MutexLock lock(self->mutex_);
        if (entry->wanted.empty())
          return NotFound("no version of '{0}' is pointed to; point to one with 'rivulet model point {0} stable=RUN'",
                          served.name);
        if (entry->routing->labels.empty()) {
          for (const auto& [number, version] : entry->versions)
            if (version.state == VersionState::kFailed)
              return FailedPrecondition("no version of '{}' can be served: {}", served.name, version.reason);
        }
      }
      return absl::OkStatus();
    }();
    {
      MutexLock lock(mutex);
      status = first;
      done = true;
      loaded.NotifyAll();
    }
    if (first.ok()) self->Watch();
  });
  {
    MutexLock lock(mutex);
    while (!done) loaded.Wait(mutex);
  }
  if (!status.ok()) return status;
  return server;
}

ModelServer::~ModelServer() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  closing_changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void ModelServer::SetState(Entry& entry, const PointedVersion& version, VersionState state, const std::string& reason) {
  {
    MutexLock lock(mutex_);
    VersionStatus& status = entry.versions[version.version];
    status.version = version;
    status.state = state;
    status.reason = reason;
  }
  if (options_.tell == nullptr || state == VersionState::kLoading || state == VersionState::kWarming) return;
  std::string text = fmt::format("model {} version {} (run {}, round {}) is {}", entry.served.name, version.version,
                                 version.run_id, version.round, Name(state));
  if (!reason.empty()) text += ": " + reason;
  options_.tell(text, state == VersionState::kFailed);
}

StatusOr<std::shared_ptr<const LoadedVersion>> ModelServer::Load(const Entry& entry, const PointedVersion& version) {
  const bool fixed = entry.served.fixed.has_value();
  const PointedFiles::Found files =
      fixed ? PointedFiles::Found{entry.served.fixed->version_path, entry.served.fixed->plan_path}
            : entry.files->Find(version);
  auto loaded = std::make_shared<LoadedVersion>();
  loaded->pointed = version;
  loaded->text = fmt::format("{}/{}/{}", version.run_id, version.round, version.digest);
  // Versions of one plan share its compiled programs.
  std::weak_ptr<const ServedPlan>& known = plans_[version.plan_digest];
  loaded->plan = known.lock();
  if (loaded->plan == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(auto plan, LoadServedPlan(fs_, files.plan, version.plan_digest));
    RIVULET_ASSIGN_OR_RETURN(loaded->plan, ServedPlan::Create(std::move(plan), options_.plan));
    known = loaded->plan;
  }
  RIVULET_ASSIGN_OR_RETURN(loaded->model, LoadServedModel(fs_, files.version, version.digest,
                                                          loaded->plan->plan().layout(), options_.cluster));
  return loaded;
}

// A label whose version cannot be loaded keeps its previous one. All requests see the new routing at once and
// completely.
Status ModelServer::Apply(Entry& entry, std::map<std::string, PointedLabel> wanted) {
  std::shared_ptr<const Routing> before;
  {
    MutexLock lock(mutex_);
    before = entry.routing;
    entry.wanted = wanted;
  }
  auto routing = std::make_shared<Routing>();
  routing->name = entry.served.name;
  std::map<int64_t, std::shared_ptr<const LoadedVersion>> loaded;
  if (before != nullptr)
    for (const auto& [label, target] : before->labels) loaded[target.version->pointed.version] = target.version;
  const auto old = loaded;
  for (auto& [label, target] : wanted) {
    if (label == kCanaryLabel && target.rows == entry.aborted_rows) target.share = 0;
    const PointedVersion& version = target.target;
    if (!loaded.contains(version.version)) {
      SetState(entry, version, VersionState::kLoading);
      auto fresh = Load(entry, version);
      Status status = fresh.status();
      if (status.ok()) {
        SetState(entry, version, VersionState::kWarming);
        status = WarmUp(**fresh, batcher_->sizes());
      }
      if (status.ok()) {
        loaded[version.version] = *fresh;
        SetState(entry, version, VersionState::kAvailable);
      } else {
        SetState(entry, version, VersionState::kFailed, std::string(Message(status)));
      }
    }
    RoutedLabel routed;
    routed.share = target.share;
    if (const auto found = loaded.find(version.version); found != loaded.end()) {
      routed.version = found->second;
    } else if (before != nullptr && before->labels.contains(label)) {
      routed.version = before->labels.find(label)->second.version;
    } else {
      continue;
    }
    {
      MutexLock lock(mutex_);
      auto& counts = entry.counts[{label, routed.version->pointed.version}];
      if (counts == nullptr) counts = std::make_shared<ModelCounts>();
      routed.counts = counts;
    }
    routing->labels.emplace(label, std::move(routed));
  }
  const auto canary = routing->labels.find(kCanaryLabel);
  if (!options_.abort_if.empty() && canary != routing->labels.end() && canary->second.share > 0)
    routing->watch = std::make_shared<CanaryWatch>();
  std::vector<std::shared_ptr<const LoadedVersion>> gone;
  {
    MutexLock lock(mutex_);
    for (auto& [number, status] : entry.versions) status.labels.clear();
    for (const auto& [label, target] : routing->labels)
      entry.versions[target.version->pointed.version].labels.push_back(label);
    for (const auto& [number, version] : old) {
      const bool serves =
          std::ranges::any_of(routing->labels, [&](const auto& entry) { return entry.second.version == version; });
      if (!serves) gone.push_back(version);
    }
    entry.routing = std::move(routing);
  }
  for (const auto& version : gone) {
    SetState(entry, version->pointed, VersionState::kDraining);
    draining_.push_back({&entry, version->pointed, version});
  }
  return absl::OkStatus();
}

void ModelServer::TellDrained() {
  std::erase_if(draining_, [&](const Draining& draining) {
    if (!draining.held.expired()) return false;
    // A label may lead to it again by now.
    if (draining.entry->versions.at(draining.version.version).state == VersionState::kDraining)
      SetState(*draining.entry, draining.version, VersionState::kUnloaded);
    return true;
  });
}

Status ModelServer::Follow(const std::string& db) {
  Pointers& pointers = *histories_.at(db);
  RIVULET_ASSIGN_OR_RETURN(const int64_t version, pointers.DataVersion());
  if (const auto seen = seen_.find(db); seen != seen_.end() && seen->second == version) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers.Rows());
  auto names = NamesOf(rows);
  std::vector<Entry*> entries;
  {
    MutexLock lock(mutex_);
    for (auto& [name, entry] : entries_)
      if (entry.served.db == db && !entry.served.fixed) entries.push_back(&entry);
  }
  for (Entry* entry : entries) {
    auto& wanted = names[entry->served.name].labels;
    const auto same = [&] {
      if (entry->routing == nullptr || wanted.size() != entry->wanted.size()) return false;
      for (const auto& [label, target] : wanted) {
        const auto found = entry->wanted.find(label);
        if (found == entry->wanted.end() || found->second.target != target.target || found->second.rows != target.rows)
          return false;
      }
      return true;
    }();
    if (!same) RIVULET_RETURN_IF_ERROR(Apply(*entry, std::move(wanted)));
  }
  seen_[db] = version;
  return absl::OkStatus();
}

// A history that cannot be read now is read again later; loaded versions stay in service.
void ModelServer::Watch() {
  std::map<std::string, std::string> told;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (!closing_) closing_changed_.WaitFor(mutex_, options_.poll);
      if (closing_) return;
    }
    for (const auto& [db, pointers] : histories_) {
      const Status status = Follow(db);
      const std::string sentence(Message(status));
      if (!status.ok() && told[db] != sentence && options_.tell)
        options_.tell(fmt::format("the pointers of '{}' cannot be followed now: {}", db, sentence), true);
      told[db] = sentence;
    }
    AbortWorseCanaries();
    TellDrained();
  }
}

// Requests see the new routing at once, even if its row cannot be written.
void ModelServer::AbortWorseCanaries() {
  std::vector<std::pair<Entry*, std::shared_ptr<const Routing>>> watched;
  {
    MutexLock lock(mutex_);
    for (auto& [name, entry] : entries_)
      if (entry.routing != nullptr && entry.routing->watch != nullptr) watched.emplace_back(&entry, entry.routing);
  }
  for (const auto& [entry, routing] : watched) {
    const std::string reason = routing->watch->Worse(options_.abort_if);
    if (reason.empty()) continue;
    auto without = std::make_shared<Routing>(*routing);
    without->watch = nullptr;
    without->labels.find(kCanaryLabel)->second.share = 0;
    AbortedCanary aborted{entry->served.db, entry->served.name, {}, reason};
    {
      MutexLock lock(mutex_);
      entry->routing = std::move(without);
      aborted.label = entry->wanted.at(kCanaryLabel);
      entry->aborted_rows = aborted.label.rows;
    }
    if (options_.tell) {
      options_.tell(fmt::format("model {}: '{}' (run {}, round {}) gets no requests any more: {}", entry->served.name,
                                kCanaryLabel, aborted.label.target.run_id, aborted.label.target.round, reason),
                    true);
    }
    if (options_.aborted) options_.aborted(aborted);
  }
}

StatusOr<Route> ModelServer::Choose(std::string_view name, std::string_view version, std::string_view key) const {
  std::shared_ptr<const Routing> routing;
  {
    MutexLock lock(mutex_);
    if (const auto found = entries_.find(name); found != entries_.end()) routing = found->second.routing;
  }
  if (routing != nullptr) return routing->Choose(version, key);
  return NotFound("no model '{}' is served.{}", Shortened(name), DidYouMean(name, Names()));
}

std::string ModelServer::NextKey() const { return fmt::format("#{}", keys_.fetch_add(1, std::memory_order_relaxed)); }

StatusOr<std::vector<VersionStatus>> ModelServer::Versions(const std::string& name) const {
  {
    MutexLock lock(mutex_);
    if (const auto found = entries_.find(name); found != entries_.end()) {
      std::vector<VersionStatus> versions;
      for (const auto& [number, status] : found->second.versions) versions.push_back(status);
      return versions;
    }
  }
  return NotFound("no model '{}' is served.{}", Shortened(name), DidYouMean(name, Names()));
}

std::vector<std::string> ModelServer::Names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

bool ModelServer::Ready() const {
  MutexLock lock(mutex_);
  return std::ranges::all_of(entries_, [](const auto& entry) {
    return entry.second.routing != nullptr && entry.second.routing->labels.contains(kStableLabel);
  });
}

std::vector<ModelServer::LabelCounts> ModelServer::Counts() const {
  MutexLock lock(mutex_);
  std::vector<LabelCounts> all;
  for (const auto& [name, entry] : entries_)
    for (const auto& [key, counts] : entry.counts) {
      LabelCounts of_label{name, key.first, key.second, counts};
      if (entry.routing != nullptr) {
        const auto target = entry.routing->labels.find(key.first);
        if (target != entry.routing->labels.end() && target->second.version->pointed.version == key.second)
          of_label.percent = target->second.share;
      }
      all.push_back(std::move(of_label));
    }
  return all;
}

int64_t ModelServer::MostOfBatch(int64_t (ServedPlan::*of_row)() const) const {
  MutexLock lock(mutex_);
  int64_t most = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry.routing == nullptr) continue;
    for (const auto& [label, target] : entry.routing->labels)
      most = std::max(most, (*target.version->plan.*of_row)() * options_.batch.max_batch);
  }
  return most;
}

int64_t ModelServer::BatchBytes() const { return MostOfBatch(&ServedPlan::row_bytes); }

int64_t ModelServer::BatchJsonValues() const { return MostOfBatch(&ServedPlan::row_json_values); }

}  // namespace rivulet
