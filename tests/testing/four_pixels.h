// Softmax regression of four pixels to three classes, with weights and clients' examples that follow from formulas:
// small enough for a reference by hand or by NumPy.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/scope.h"
#include "engine/models/model_def.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// Variables "w" [4,3] and "b" [3], tensors "logits" and "loss".
inline ModelDef FourPixels() {
  ModelDef model;
  Scope scope(model.graph);
  const Output image = scope.Placeholder("image", DType::kFloat32, {-1, 4});
  const Output label = scope.Placeholder("label", DType::kInt64, {-1});
  std::vector<Node*> assigned;
  const auto variable = [&](const char* name, Shape shape) {
    const Output handle = scope.Op(
        "VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", shape}, {"shared_name", std::string(name)}}, name);
    assigned.push_back(scope.AddNode("AssignVariableOp", {handle, scope.Const(Tensor(DType::kFloat32, shape))},
                                     {{"dtype", DType::kFloat32}}));
    return scope.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  };
  const Output w = variable("w", {4, 3}), b = variable("b", {3});
  scope.WithControl(assigned).AddNode("NoOp", {}, {}, "init");
  const Output logits = scope.Op("BiasAdd", {scope.Op("MatMul", {image, w}), b}, {}, "logits");
  const Output losses = scope.Op("SparseSoftmaxCrossEntropyWithLogits", {logits, label});
  scope.Op("Mean", {losses, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "loss");
  EXPECT_OK(scope.status());
  model.input = {"image", {DType::kFloat32, {-1, 4}}, FeatureEncoding::kUint8, 1.0 / 255.0};
  model.label = {"label", {DType::kInt64, {-1}}, FeatureEncoding::kInt64, 1, 3};
  model.classes = 3;
  model.train_loss = model.eval_loss = "loss";
  auto variables = VariablesOf(model.graph);
  EXPECT_OK(variables);
  model.variables = *std::move(variables);
  return model;
}

// Weight n of all, counted in wire order, is ((37 n mod 101) − 50) / 100.
inline std::shared_ptr<const Model> FourPixelsBase(const Plan& plan) {
  auto model = std::make_shared<Model>(plan.layout());
  int n = 0;
  for (const Slice& slice : plan.layout()->slices()) {
    for (float& value : model->tensor(slice).flat<float>()) value = static_cast<float>(n++ * 37 % 101 - 50) * 0.01f;
  }
  return model;
}

// Pixel k of example i is (71 k + 37 i + 113 client) mod 256, its label (i + client) mod 3.
inline std::vector<std::string> FourPixelRecords(int client, int count) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string image;
    for (int k = 0; k < 4; ++k) image.push_back(static_cast<char>((71 * k + 37 * i + 113 * client) % 256));
    records.push_back(DigitExample(image, (i + client) % 3));
  }
  return records;
}

}  // namespace rivulet::testing
