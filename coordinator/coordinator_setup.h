// A checked and opened run, before it works (create.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/commit/record_maker.h"
#include "coordinator/history/history.h"
#include "coordinator/model_store/model_store.h"
#include "coordinator/rounds/run_machine.h"
#include "coordinator/run_parts.h"
#include "coordinator/run_privacy.h"
#include "coordinator/stop_rule.h"
#include "federated/mechanisms/mean_mechanisms.h"
#include "federated/numbers/number_rule.h"
#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {

struct CoordinatorSetup {
  CoordinatorOptions options;
  RunParts parts;
  std::unique_ptr<const ServerOptimizer> optimizer;
  MeanMechanisms mean_mechanisms;
  std::unique_ptr<const NumberRule> number_rule;  // null: tasks report no numbers
  std::unique_ptr<RunPrivacy> privacy;            // null: no noise on sums
  std::unique_ptr<RecordMaker> records;           // null: a finished run, of which no version follows
  std::string run_id;
  std::unique_ptr<History> history;
  std::unique_ptr<ModelStore> models;
  ServedVersion current;
  std::vector<ServedVersion> before;  // earlier ones that are still to be measured, or that tasks start from
  std::vector<ModelRow> model_rows;   // as in the history
  // If clients keep state: each one's newest task in a version, after the tasks that were newest when a version was
  // made that is still to be measured.
  std::vector<TaskId> folded;
  std::optional<RunMachine> machine;
  StopRule stop_rule;      // that has seen the measures of all earlier versions
  int64_t last_round = 0;  // as planned, or that of the version with which the run was to end
  bool resumed = false;
  bool already_finished = false;

  FileSystem& file_system() const {
    return options.file_system != nullptr ? *options.file_system : FileSystem::Default();
  }
};

// A task's duration for selection: virtual if one is planned, else the measured training time.
inline double DurationOf(const CoordinatorOptions& options, const std::string& client_id, double train_seconds) {
  return options.task_time ? static_cast<double>(options.task_time(client_id)) : train_seconds;
}

}  // namespace rivulet
