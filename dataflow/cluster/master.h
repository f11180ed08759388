// The sessions whose master is this process, by handle, and their bounds. No gRPC.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dataflow/distributed/master_session.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

namespace proto {
class ConfigProto;
}  // namespace proto

struct MasterOptions {
  size_t max_sessions = 64;
  std::function<Status(const Graph& graph)> allow;  // whether a graph may run; null: any
  std::chrono::milliseconds control_timeout = std::chrono::seconds(30);
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);
  // Sessions that nobody used for this long make way when there are too many.
  std::chrono::minutes idle_after{60};
};

// Thread-safe. The calls block while tasks are asked.
class Master {
 public:
  Master(std::vector<std::shared_ptr<RemoteTask>> tasks, std::string own_task, MasterOptions options)
      : tasks_(std::move(tasks)), own_task_(std::move(own_task)), options_(std::move(options)) {}
  ~Master();

  // INVALID_ARGUMENT, UNIMPLEMENTED: a field of `config`, by name. Errors of ParseGraph and MasterSession::Create.
  StatusOr<std::shared_ptr<MasterSession>> CreateSession(std::string_view graph_def, const proto::ConfigProto& config,
                                                         uint64_t seed);
  // NOT_FOUND: no session of this handle. ABORTED when it may be one of an earlier process.
  StatusOr<std::shared_ptr<MasterSession>> Session(const std::string& handle);
  Status Extend(const std::string& handle, std::string_view graph_def, int64_t current_version, int64_t* new_version);
  Status CloseSession(const std::string& handle);
  // Closes all sessions, and forgets variables and queues of these containers at all tasks.
  Status Reset(const std::vector<std::string>& containers);
  // Of a session, or of the whole cluster for "". Those of this process first.
  StatusOr<std::vector<TaskDevice>> Devices(const std::string& handle);
  bool IsOwn(const TaskDevice& device) const;

 private:
  struct Entry {
    std::shared_ptr<MasterSession> session;
    std::chrono::steady_clock::time_point used;
  };
  const std::vector<std::shared_ptr<RemoteTask>> tasks_;
  const std::string own_task_;
  const MasterOptions options_;
  Mutex mutex_;
  std::map<std::string, Entry> sessions_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
