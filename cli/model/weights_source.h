// Weights argument of a command line: a file of weights, or any model that `rivulet model` accepts.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "inspect/model_source.h"

namespace rivulet {

struct WeightsSource {
  std::string title;   // the argument
  std::string format;  // "safetensors", "npz", "model"
  NamedWeights weights;
  std::map<std::string, std::string> metadata;  // of a safetensors file
  std::optional<Digest> version;                // the model's, of a version's file that names its record
};

// FILE.safetensors, FILE.npz, RUN[:ROUND] of the history `db` (run_model.h), or a model (LoadModelSource) with its
// initial values. Errors name the file.
StatusOr<WeightsSource> LoadWeights(const std::string& what, const std::string& db = "./rivulet.sqlite");

// The arrays of an .npz file.
StatusOr<NamedWeights> ReadNpz(const std::string& path);

}  // namespace rivulet
