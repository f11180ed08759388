#include "cli/run/prepare_data.h"

#include <cstdio>

#include "cli/command.h"
#include "cli/long_work.h"
#include "cli/terminal.h"
#include "engine/base/file_system.h"
#include "engine/data/record_files.h"
#include "setup/data.h"
#include "simulations/shipped/shipped_scenarios.h"

namespace rivulet {

Status PrepareDataHere(const Scenario& scenario) {
  const DataConfig& data = scenario.data;
  if (CurrentProgressStyle() == ProgressStyle::kText && !data.synth.kind.empty() && !TrainsOnOwnData(scenario) &&
      !RecordFilesMatching(data.train).ok())
    fmt::print(stderr, "generating the data \"{}\" (data.synth), once, in {}\n", data.synth.kind, FolderOf(data.train));
  LongWork work("generating data");
  const Status prepared = PrepareData(scenario, work.progress());
  if (const std::string command = DataCommandOf(scenario.path); absl::IsNotFound(prepared) && !command.empty()) {
    return NotFound("{}. '{}' makes it, in the folder that RIVULET_DATA names, or else here", Message(prepared),
                    command);
  }
  return data.train.empty() ? AsUsageError(prepared) : prepared;
}

}  // namespace rivulet
