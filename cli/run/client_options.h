// Options of a client's command line, and the files they open before any connection.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/device_option.h"
#include "cli/run/log_file.h"
#include "cli/run/security.h"
#include "cli/run/watching.h"
#include "client/agent/site_policy.h"
#include "client/training/task_trainer.h"

namespace rivulet {

struct ClientOptions {
  std::string coordinator;
  SecurityOptions security;
  std::string name;
  std::vector<std::string> data;  // NAME=GLOB
  std::vector<std::string> tags;
  std::string kernels;
  std::string state = "rivulet-state";
  std::string policy;
  std::string show_plan;                      // a file, or kOffered
  std::optional<int64_t> max_upload_rate;     // KB a second
  std::optional<int64_t> hold_megabytes;      // of finished updates; nullopt: kHoldMegabytes
  std::optional<int64_t> checkpoint_seconds;  // nullopt: kCheckpointSeconds
  std::vector<std::string> bases;             // DIGEST=FILE
  std::string base_dir;                       // of downloaded bases; "": BaseStore::DefaultFolder()
  std::optional<int64_t> base_megabytes;      // limit for all of them; nullopt: BaseStoreOptions'
  DeviceOptions device;
  std::string receipts;  // a folder; "": none are kept
  bool preflight = false;
  bool zstd = false;
  bool json = false;
  LogOptions log;
  TraceOptions trace;
};

inline constexpr char kOffered[] = "offered";
inline constexpr int64_t kHoldMegabytes = 2000;
inline constexpr int64_t kCheckpointSeconds = 60;

// The files of --data, by name. Usage errors, NOT_FOUND: no file.
StatusOr<std::map<std::string, std::vector<std::string>>> BoundFilesOf(const std::vector<std::string>& bindings);
// The files of --data, by name, with the tags of --tag. Usage errors, NOT_FOUND: no file. Otherwise Dataset::Open's.
StatusOr<std::vector<BoundData>> BindData(const std::vector<std::string>& bindings,
                                          const std::vector<std::string>& tags);
// From --policy; by default one that allows anything. Usage errors, NOT_FOUND.
StatusOr<SitePolicy> PolicyOf(const ClientOptions& options);
// Called before any work for a coordinator: otherwise a missing folder would only be noticed after the first training.
// INVALID_ARGUMENT.
Status CheckStateFolder(const std::string& folder);

}  // namespace rivulet
