// Served names of a process: their versions, the state of each, and the choice of a version for each request. Follows
// the pointers of histories; protocols (grpc_inference.h and its neighbours) call it.
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
  std::string db;  // the history with its pointers
  // A version that is served as `stable` regardless of the pointers: its files. Nullopt: the pointers decide.
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

// A canary that lost its share, because it was worse than the stable version.
struct AbortedCanary {
  std::string db, name;
  PointedLabel label;  // as it was then
  std::string reason;
};

struct ModelServerOptions {
  std::vector<NameToServe> names;
  BatchOptions batch;
  ServedPlanOptions plan;
  std::optional<int64_t> cluster;
  std::chrono::milliseconds poll{200};
  // Rules that set a canary's share to 0 until its label is pointed again.
  std::vector<AbortRule> abort_if = {};
  // Receives each such canary once, on a thread of the server; must not block.
  std::function<void(const AbortedCanary& canary)> aborted = {};
  // Receives log messages about versions that appear, go or fail. On a thread of the server.
  std::function<void(const std::string& sentence, bool warning)> tell;
};

// Server of names. Thread-safe.
class ModelServer {
 public:
  // Loads every name's versions. Errors: a name without pointers (NOT_FOUND), or without a version that can be served.
  static StatusOr<std::unique_ptr<ModelServer>> Start(FileSystem& fs, ModelServerOptions options);
  ~ModelServer();

  // As Routing::Choose. NOT_FOUND: no such name is served (gives the nearest).
  StatusOr<Route> Choose(std::string_view name, std::string_view version, std::string_view key) const;
  // A key for a request without one.
  std::string NextKey() const;
  // The versions of one name, by number; NOT_FOUND as Choose.
  StatusOr<std::vector<VersionStatus>> Versions(const std::string& name) const;
  std::vector<std::string> Names() const;
  // Whether every name has a version for requests without version or label.
  bool Ready() const;
  struct LabelCounts {
    std::string name, label;
    int64_t version = 0;
    std::shared_ptr<const ModelCounts> counts;
    double percent = 0;  // present share of requests without version or label; 0 for 'stable'
  };
  std::vector<LabelCounts> Counts() const;
  Batcher& batcher() { return *batcher_; }
  // The size in bytes of the largest batch of examples of any name.
  int64_t BatchBytes() const;
  int64_t BatchJsonValues() const;  // as in ServedPlan::row_json_values

 private:
  struct Entry {
    NameToServe served;
    std::unique_ptr<PointedFiles> files;
    std::map<std::string, PointedLabel> wanted;  // by the pointers
    std::map<int64_t, VersionStatus> versions;
    std::map<std::pair<std::string, int64_t>, std::shared_ptr<ModelCounts>> counts;  // by label and version
    std::shared_ptr<const Routing> routing;
    int64_t aborted_rows = 0;  // PointedLabel::rows of a canary that lost its share; 0: none
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

  // A version without a label that requests may still be using.
  struct Draining {
    Entry* entry = nullptr;
    PointedVersion version;
    std::weak_ptr<const LoadedVersion> held;
  };

  FileSystem& fs_;
  const ModelServerOptions options_;
  std::unique_ptr<Batcher> batcher_;
  std::map<std::string, std::unique_ptr<Pointers>> histories_;    // of the watching thread
  std::map<std::string, int64_t> seen_;                           // likewise: data versions
  std::map<std::string, std::weak_ptr<const ServedPlan>> plans_;  // likewise, by digest
  std::vector<Draining> draining_;                                // likewise
  mutable Mutex mutex_;
  CondVar closing_changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  std::map<std::string, Entry, std::less<>> entries_ GUARDED_BY(mutex_);
  mutable std::atomic<uint64_t> keys_ = 0;
  std::thread thread_;
};

}  // namespace rivulet
