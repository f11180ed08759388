#include "cli/model/weights_source.h"

#include <cstring>

#include "engine/base/file_system.h"
#include "engine/io/npz.h"
#include "engine/io/safetensors.h"
#include "federated/records/version_record.h"
#include "federated/weights/file_digest.h"
#include "inspect/run_model.h"

namespace rivulet {

StatusOr<NamedWeights> ReadNpz(const std::string& path) {
  RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(path));
  StatusOr<NamedWeights> arrays = ParseNpz(bytes);
  if (!arrays.ok()) return Annotate(arrays.status(), path);
  return arrays;
}

StatusOr<WeightsSource> LoadWeights(const std::string& what, const std::string& db) {
  if (NamesRound(what)) {
    RIVULET_ASSIGN_OR_RETURN(const RunModel run, FindRunModel(db, what));
    RIVULET_ASSIGN_OR_RETURN(WeightsSource source, LoadWeights(run.path, db));
    source.title = fmt::format("{}, round {}", run.run_id, run.round);
    return source;
  }
  WeightsSource source{.title = what};
  if (what.ends_with(".npz")) {
    source.format = "npz";
    RIVULET_ASSIGN_OR_RETURN(source.weights, ReadNpz(what));
  } else if (what.ends_with(".safetensors")) {
    source.format = "safetensors";
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, FileSystem::Default().ReadAll(what));
    const StatusOr<SafetensorsContent> content = ParseSafetensors(bytes);
    if (!content.ok()) return Annotate(content.status(), what);
    source.metadata = content->metadata;
    if (source.metadata.contains(records::kRecordKey)) {
      RIVULET_ASSIGN_OR_RETURN(source.version, ModelDigestOf(*content));
    }
    for (const SafetensorsEntry& entry : content->tensors) {
      Tensor tensor(entry.dtype, entry.shape);
      if (!entry.data.empty()) std::memcpy(tensor.data(), entry.data.data(), entry.data.size());
      source.weights.emplace_back(entry.name, std::move(tensor));
    }
  } else {
    source.format = "model";
    RIVULET_ASSIGN_OR_RETURN(const ModelSource model, LoadModelSource({.what = what, .db = db}));
    RIVULET_ASSIGN_OR_RETURN(source.weights, model.weights());
  }
  return source;
}

}  // namespace rivulet
