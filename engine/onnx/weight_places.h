// Roles of an ONNX model's floating initializers: weights, running statistics, and constants excluded from training,
// such as masks and tables of positions.
//
// A weight is an initializer in a weight's place, such as input 1 of a Conv, directly or through operators that only
// rearrange it. If the model names its parameters (metadata "rivulet.parameters", written by rivulet.torch), these
// names decide instead. The caller's patterns overrule both.
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
  // `trainable`: names of initializers, with `*` for any characters, that are weights whatever else is said.
  // INVALID_ARGUMENT: the metadata name no list of parameters.
  static StatusOr<WeightPlaces> Find(const proto::ModelProto& model, const std::vector<std::string>& trainable);

  // Of the initializer `name`, or of what an Identity makes of one: exporters that merge equal initializers give each
  // its name so.
  Placed Of(const std::string& name) const;
  // Whether the model names its parameters, and `name` among them.
  bool NamesParameters() const { return names_parameters_; }
  bool IsNamed(const std::string& name) const { return parameters_.contains(name); }
  // Whether an initializer of this name is one that an exporter computed.
  static bool IsMade(std::string_view name);
  // Whether the caller's patterns name it.
  bool Overruled(const std::string& name) const;
  // Nodes of different places that take it as their scale or offset.
  std::vector<std::string> Normalisations(const std::string& name) const;
  // The row of an embedding that is never trained (torch's padding_idx), by the table's name: "rivulet.padding_rows".
  const std::map<std::string, int64_t>& padding_rows() const { return padding_rows_; }

 private:
  struct Use {
    const proto::NodeProto* node;
    int input;
  };
  const Use* WeightUse(const std::string& value, int depth) const;

  std::multimap<std::string, Use> uses_;
  std::set<std::string> functions_;  // the model's own, by name: any input of theirs may be a weight's place
  std::set<std::string> parameters_;
  bool names_parameters_ = false;
  std::map<std::string, int64_t> padding_rows_;
  std::vector<std::string> trainable_;
};

}  // namespace rivulet::onnx
