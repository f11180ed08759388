// Models written as text, for tests of the importer.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/onnx/onnx.pb.h"

namespace rivulet::testing {

// Returns a model of opset 17 with `graph` in protobuf's text format; `rest` has further fields of the model.
inline onnx::proto::ModelProto TextModel(const std::string& graph,
                                         const std::string& rest = "opset_import { version: 17 }") {
  onnx::proto::ModelProto model;
  const std::string text = "ir_version: 8 " + rest + " graph { " + graph + " }";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model)) << text;
  return model;
}

// Returns `name: "x" type { … }` for a float32 tensor, for input { … } and output { … }.
inline std::string Floats(const std::string& name, std::initializer_list<int> dims) {
  std::string text = "name: '" + name + "' type { tensor_type { elem_type: 1 shape { ";
  for (int dim : dims) text += dim < 0 ? "dim { dim_param: 'n' } " : "dim { dim_value: " + std::to_string(dim) + " } ";
  return text + "} } }";
}

}  // namespace rivulet::testing
