// Roles of an ONNX model's floating initializers: weights, running statistics, and constants excluded from training,
// such as masks and tables of positions.
//
// A weight is an initializer in a weight's place, such as input 1 of a Conv, directly or through operators that only
// rearrange it. If the model lists its parameters (metadata "rivulet.parameters", written by rivulet.torch), this list
// applies instead. The caller's patterns override both.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "proto/onnx/onnx.pb.h"

namespace rivulet::onnx {

enum class Role { kWeight, kStatistic, kConstant };
std::string_view Name(Role role);  // "weight", "running statistic", "constant"

struct Placed {
  Role role = Role::kConstant;
  std::string why;  // "input 1 of Conv '/conv/Conv'"
};

class WeightPlaces {
 public:
  // `trainable`: patterns of initializers that are weights regardless of other evidence; `*` matches any characters.
  // INVALID_ARGUMENT: the metadata is not a list of parameters.
  static StatusOr<WeightPlaces> Find(const proto::ModelProto& model, const std::vector<std::string>& trainable);

  // Returns the role of the initializer `name`, also if it reaches its uses through an Identity: exporters that merge
  // equal initializers keep their names in this way.
  Placed Of(const std::string& name) const;
  // Returns true if the model lists its parameters. The list need not contain every initializer.
  bool NamesParameters() const { return names_parameters_; }
  bool IsNamed(const std::string& name) const { return parameters_.contains(name); }
  // Returns true if an exporter computed an initializer of this name.
  static bool IsMade(std::string_view name);
  // Returns true if one of the caller's patterns matches the name.
  bool Overruled(const std::string& name) const;
  // Returns the normalisation nodes that use the initializer.
  std::vector<std::string> Normalisations(const std::string& name) const;
  // The row of an embedding that is never trained (torch's padding_idx), by table name: "rivulet.padding_rows".
  const std::map<std::string, int64_t>& padding_rows() const { return padding_rows_; }

 private:
  struct Use {
    const proto::NodeProto* node;
    int input;
  };
  const Use* WeightUse(const std::string& value, int depth) const;

  std::multimap<std::string, Use> uses_;
  std::set<std::string> functions_;  // the model's functions, by name: any of their inputs may be a weight's place
  std::set<std::string> parameters_;
  bool names_parameters_ = false;
  std::map<std::string, int64_t> padding_rows_;
  std::vector<std::string> trainable_;
};

}  // namespace rivulet::onnx
