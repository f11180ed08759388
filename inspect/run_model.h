// A model of a run's history in the form RUN[:ROUND] of `rivulet model`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "federated/weights/model.h"

namespace rivulet {

inline constexpr char kRunModelHelp[] = "RUN[:ROUND] of the history, ROUND being a number, 'latest' or 'best'";

struct RunModel {
  std::string run_id;
  int64_t round = 0;
  std::string path;    // of its safetensors file
  std::string config;  // of the run, as TOML
};

// Whether `what` has a round, so that it can only have this form.
bool NamesRound(std::string_view what);

// RUN is a run's id or name or "latest", ROUND a number, "latest" (also the default: the newest stored one) or "best":
// by accuracy on the test set, or else by loss there. NOT_FOUND: no such history, run or round. FAILED_PRECONDITION:
// that round's model was not stored (lists the stored ones), or no round was evaluated.
StatusOr<RunModel> FindRunModel(const std::string& db, const std::string& what);

inline constexpr char kClusterHelp[] = "of several models that a run has, such as of `ifca`, that of cluster K [0]";

// Reads the model that the round measured: for a run that averages its versions (server.average) the average, for one
// with several models that of `cluster`, numbered as in `train/cluster`. A usage error: there is no such cluster, or
// the run has one model. Other errors as ReadServerState, with the path.
StatusOr<std::shared_ptr<const Model>> ReadRunModel(const RunModel& run, std::shared_ptr<const ModelLayout> layout,
                                                    std::optional<int64_t> cluster);

}  // namespace rivulet
