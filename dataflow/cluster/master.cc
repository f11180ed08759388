#include "dataflow/cluster/master.h"

#include <algorithm>
#include <random>

#include "dataflow/placement/rendezvous.h"
#include "dataflow/session/session_options.h"
#include "engine/base/shown_text.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/config.pb.h"

namespace rivulet {
namespace {

std::string DrawHandle() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

// Options that say how a session reaches its tasks mean the cluster that this process was started with.
Status CheckCluster(const proto::ConfigProto& config, const std::vector<std::shared_ptr<RemoteTask>>& tasks) {
  for (const proto::JobDef& job : config.cluster_def().job()) {
    for (const auto& [index, address] : job.tasks()) {
      const std::string name = fmt::format("/job:{}/replica:0/task:{}", job.name(), index);
      if (std::ranges::none_of(tasks, [&](const auto& task) { return task->name() == name; }))
        return InvalidArgument(
            "cluster_def names '{}', and the cluster of this process has no such task; start its tasks with --cluster",
            Shortened(name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Master::~Master() {
  MutexLock lock(mutex_);
  for (const auto& [handle, entry] : sessions_) entry.session->Close();
}

StatusOr<std::shared_ptr<MasterSession>> Master::CreateSession(std::string_view graph_def,
                                                               const proto::ConfigProto& config, uint64_t seed) {
  {
    MutexLock lock(mutex_);
    if (sessions_.size() >= options_.max_sessions) {
      const auto now = std::chrono::steady_clock::now();
      std::erase_if(sessions_, [&](const auto& entry) { return now - entry.second.used > options_.idle_after; });
    }
    if (sessions_.size() >= options_.max_sessions)
      return ResourceExhausted("this process has {} sessions, and takes no more; close some first", sessions_.size());
  }
  RIVULET_RETURN_IF_ERROR(CheckCluster(config, tasks_));
  proto::ConfigProto own = config;
  own.clear_cluster_def();
  // Said of every session over tasks by TensorFlow's client, and as it is here in any case: steps are never folded for
  // good, and sessions share their tasks' devices and state.
  proto::ConfigProto::Experimental& experimental = *own.mutable_experimental();
  experimental.clear_disable_optimize_for_static_graph();
  experimental.clear_share_cluster_devices_in_session();
  experimental.clear_share_session_state_in_clusterspec_propagation();
  RIVULET_ASSIGN_OR_RETURN(const SessionConfig session_config, SessionConfigFrom(own));
  StatusOr<Graph> graph = Graph();
  if (!graph_def.empty()) graph = ParseGraph(graph_def);
  if (!graph.ok()) return graph.status();
  if (options_.allow) RIVULET_RETURN_IF_ERROR(options_.allow(*graph));
  MasterSessionOptions options;
  options.handle = DrawHandle();
  options.seed = seed;
  if (session_config.placement) options.placement = *session_config.placement;
  options.isolate_session_state = own.isolate_session_state();
  options.static_graph = session_config.static_graph;
  options.operation_timeout = session_config.operation_timeout;
  options.control_timeout = options_.control_timeout;
  options.heartbeat = options_.heartbeat;
  RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<MasterSession> session,
                           MasterSession::Create(*std::move(graph), std::move(options), tasks_));
  MutexLock lock(mutex_);
  sessions_[session->handle()] = {session, std::chrono::steady_clock::now()};
  return session;
}

StatusOr<std::shared_ptr<MasterSession>> Master::Session(const std::string& handle) {
  MutexLock lock(mutex_);
  const auto found = sessions_.find(handle);
  if (found == sessions_.end())
    return Aborted("there is no session '{}' here; it was closed, or its master was restarted", Shortened(handle));
  found->second.used = std::chrono::steady_clock::now();
  return found->second.session;
}

Status Master::Extend(const std::string& handle, std::string_view graph_def, int64_t current_version,
                      int64_t* new_version) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session, Session(handle));
  RIVULET_RETURN_IF_ERROR(session->Extend(graph_def, current_version));
  *new_version = current_version + 1;
  return absl::OkStatus();
}

Status Master::CloseSession(const std::string& handle) {
  std::shared_ptr<MasterSession> session;
  {
    MutexLock lock(mutex_);
    const auto found = sessions_.find(handle);
    if (found == sessions_.end())
      return Aborted("there is no session '{}' here; it was closed, or its master was restarted", Shortened(handle));
    session = std::move(found->second.session);
    sessions_.erase(found);
  }
  session->Close();
  return absl::OkStatus();
}

Status Master::Reset(const std::vector<std::string>& containers) {
  std::map<std::string, Entry> sessions;
  {
    MutexLock lock(mutex_);
    sessions.swap(sessions_);
  }
  for (const auto& [handle, entry] : sessions) entry.session->Close();
  for (const std::shared_ptr<RemoteTask>& task : tasks_) task->CleanupAll(containers, [](const Status&) {});
  return absl::OkStatus();
}

StatusOr<std::vector<TaskDevice>> Master::Devices(const std::string& handle) {
  std::vector<TaskDevice> devices;
  if (handle.empty()) {
    RIVULET_ASSIGN_OR_RETURN(devices, DevicesOf(tasks_, options_.control_timeout));
  } else {
    RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<MasterSession> session, Session(handle));
    devices = session->devices();
  }
  std::ranges::stable_partition(devices, [&](const TaskDevice& device) { return IsOwn(device); });
  return devices;
}

bool Master::IsOwn(const TaskDevice& device) const { return TaskOf(device.name) == own_task_; }

}  // namespace rivulet
