// A version of a served name in memory: its plan and its parameters. Immutable; requests under way share it, and the
// last of them frees it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "federated/weights/model.h"
#include "serving/pointed_names.h"
#include "serving/served_plan.h"

namespace rivulet {

struct LoadedVersion {
  PointedVersion pointed;
  std::string text;  // "RUN/ROUND/DIGEST", in every answer
  std::shared_ptr<const ServedPlan> plan;
  std::shared_ptr<const Model> model;
};

// The plan of `digest` in `path`. DATA_LOSS: the file has another digest. Others as the file system, Plan::Open.
StatusOr<std::shared_ptr<const Plan>> LoadServedPlan(FileSystem& fs, const std::string& path,
                                                     const std::string& digest);

// The parameters of a version, as measured in its round: the average for a run that averages versions, that of
// `cluster` for one with several models. FAILED_PRECONDITION: it has several models and `cluster` is nullopt.
// RESOURCE_EXHAUSTED: it exceeds the free memory. DATA_LOSS: another digest than `digest`, or damage.
StatusOr<std::shared_ptr<const Model>> LoadServedModel(FileSystem& fs, const std::string& path,
                                                       const std::string& digest,
                                                       std::shared_ptr<const ModelLayout> layout,
                                                       std::optional<int64_t> cluster);

// Compiles a program for each of `batches` and runs it twice on zeros, so that no request waits for that and step times
// are known. Call it on a thread that has called EnterWorkerThread.
Status WarmUp(const LoadedVersion& version, std::span<const int64_t> batches);

}  // namespace rivulet
