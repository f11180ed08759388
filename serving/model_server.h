// Served names of a process: which versions they have, in which state, and which of them a request goes to. Follows the
// pointers of histories; protocols (grpc_inference.h and its neighbours) call it.
//
//   Loading → Warming → Available → Draining → Unloaded
//        └──────┴→ Failed, while the version before goes on serving
//
// One thread reads each history's data version several times a second and loads new versions. Requests under way keep
// their version, so a switch drops none.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "coordinator/history/pointers.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "serving/batcher.h"
#include "serving/pointed_files.h"
#include "serving/routing.h"

namespace rivulet {

// A name to serve.
struct NameToServe {
  std::string name;
  std::string db;  // the history that has its pointers
  // A version that is served as `stable` whatever the pointers say: its files. Nullopt: the pointers'.
  struct Fixed {
    PointedVersion version;
    std::string plan_path, version_path;
  };
  std::optional<Fixed> fixed;
};

enum class VersionState { kLoading, kWarming, kAvailable, kDraining, kUnloaded, kFailed };
std::string_view Name(VersionState state);

struct VersionStatus {
  PointedVersion version;
  std::vector<std::string> labels;  // that lead to it now
  VersionState state = VersionState::kLoading;
  std::string reason;  // of kFailed
};

// A canary that gets no share any more, as it was worse than the stable version.
struct AbortedCanary {
  std::string db, name;
  PointedLabel label;  // as it was
  std::string reason;
};

struct ModelServerOptions {
  std::vector<NameToServe> names;
  BatchOptions batch;
  ServedPlanOptions plan;
  std::optional<int64_t> cluster;
  std::chrono::milliseconds poll{200};
  // Rules by which a canary's share becomes 0 until its label is pointed anew.
  std::vector<AbortRule> abort_if = {};
  // Hears of each such canary once, on a thread of the server; does not block.
  std::function<void(const AbortedCanary& canary)> aborted = {};
  // Hears sentences for a log: versions that came, went or failed. On a thread of the server.
  std::function<void(const std::string& sentence, bool warning)> tell;
};

// Thread-safe.
class ModelServer {
 public:
  // Loads every name's versions. Errors: a name without pointers (NOT_FOUND), or none of whose versions can be served.
  static StatusOr<std::unique_ptr<ModelServer>> Start(FileSystem& fs, ModelServerOptions options);
  ~ModelServer();

  // As Routing::Choose. NOT_FOUND: no such name is served (names the nearest).
  StatusOr<Route> Choose(std::string_view name, std::string_view version, std::string_view key) const;
  // A key for a request without one.
  std::string NextKey() const;
  // Of one name; NOT_FOUND as Choose. By version.
  StatusOr<std::vector<VersionStatus>> Versions(const std::string& name) const;
  std::vector<std::string> Names() const;
  // Whether every name has a version that answers requests without version or label.
  bool Ready() const;
  struct LabelCounts {
    std::string name, label;
    int64_t version = 0;
    std::shared_ptr<const ModelCounts> counts;
    double percent = 0;  // of requests without version or label, as they are divided now; 0 of 'stable'
  };
  std::vector<LabelCounts> Counts() const;
  Batcher& batcher() { return *batcher_; }
  // The most bytes that a batch of examples of any name has.
  int64_t BatchBytes() const;
  int64_t BatchJsonValues() const;  // as ServedPlan::row_json_values

 private:
  struct Entry {
    NameToServe served;
    std::unique_ptr<PointedFiles> files;
    std::map<std::string, PointedLabel> wanted;  // as the pointers say
    std::map<int64_t, VersionStatus> versions;
    std::map<std::pair<std::string, int64_t>, std::shared_ptr<ModelCounts>> counts;  // by label and version
    std::shared_ptr<const Routing> routing;
    int64_t aborted_rows = 0;  // PointedLabel::rows of a canary whose share was taken away; 0: none
  };
  ModelServer(FileSystem& fs, ModelServerOptions options);
  Status Follow(const std::string& db);
  Status Apply(Entry& entry, std::map<std::string, PointedLabel> wanted);
  StatusOr<std::shared_ptr<const LoadedVersion>> Load(const Entry& entry, const PointedVersion& version);
  void SetState(Entry& entry, const PointedVersion& version, VersionState state, const std::string& reason = "");
  void TellDrained();
  int64_t MostOfBatch(int64_t (ServedPlan::*of_row)() const) const;
  void AbortWorseCanaries();
  void Watch();

  // A version that no label leads to any more, and that requests may still have.
  struct Draining {
    Entry* entry = nullptr;
    PointedVersion version;
    std::weak_ptr<const LoadedVersion> held;
  };

  FileSystem& fs_;
  const ModelServerOptions options_;
  std::unique_ptr<Batcher> batcher_;
  std::map<std::string, std::unique_ptr<Pointers>> histories_;    // of the watching thread
  std::map<std::string, int64_t> seen_;                           // the same: data versions
  std::map<std::string, std::weak_ptr<const ServedPlan>> plans_;  // the same, by digest
  std::vector<Draining> draining_;                                // the same
  mutable Mutex mutex_;
  CondVar closing_changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry, std::less<>> entries_ GUARDED_BY(mutex_);
  mutable std::atomic<uint64_t> keys_ = 0;
  std::thread thread_;
};

}  // namespace rivulet
