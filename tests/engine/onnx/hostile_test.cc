// Damaged and malicious models: they give an error or a result within bounds, and never a crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "engine/base/file_system.h"
#include "engine/onnx/import.h"
#include "engine/onnx/run.h"
#include "engine/onnx/tensor.h"
#include "tests/engine/onnx/text_model.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::onnx {
namespace {

using ::rivulet::testing::StatusIs;

namespace fs = std::filesystem;
using testing::Floats;
using testing::TextModel;

struct Case {
  std::string model;
  std::vector<Tensor> inputs;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& entry : fs::directory_iterator(RIVULET_ONNX_CASES)) {
    Case test;
    test.model = FileSystem::Default().ReadAll(entry.path() / "model.onnx").value();
    for (int i = 0;; ++i) {
      const fs::path path = entry.path() / "test_data_set_0" / fmt::format("input_{}.pb", i);
      if (!fs::exists(path)) break;
      test.inputs.push_back(ParseOnnxTensor(FileSystem::Default().ReadAll(path).value()).value());
    }
    cases.push_back(std::move(test));
  }
  std::ranges::sort(cases, {}, &Case::model);
  return cases;
}

// Imports, and runs where the inputs still fit. What comes out does not matter.
bool Survives(const std::string& model, const std::vector<Tensor>& inputs) {
  const StatusOr<OnnxModel> imported = ImportOnnx(model);
  if (!imported.ok()) return !Message(imported.status()).empty();
  NamedTensors feeds, variables;
  for (const OnnxValue& input : imported->inputs) {
    if (feeds.size() == inputs.size() || inputs[feeds.size()].dtype() != input.spec.dtype) return true;
    feeds.emplace_back(input.tensor, inputs[feeds.size()]);
  }
  for (const OnnxWeight& weight : imported->weights) variables.emplace_back(weight.variable, weight.value);
  std::vector<std::string> fetches;
  for (const OnnxValue& output : imported->outputs) fetches.push_back(output.tensor);
  const auto results = RunOnce(imported->graph, feeds, fetches, variables, {}, {size_t{1} << 22});
  return results.ok() || !Message(results.status()).empty();
}

TEST(HostileOnnx, TruncatedModels_AreRefused) {
  for (const Case& test : Cases()) {
    for (size_t size = 0; size < test.model.size(); size += 1 + test.model.size() / 40)
      EXPECT_TRUE(Survives(test.model.substr(0, size), test.inputs));
  }
}

TEST(HostileOnnx, ModelsWithChangedBytes_NeverCrash) {
  std::mt19937 random(7);
  for (const Case& test : Cases()) {
    for (int round = 0; round < 25; ++round) {
      std::string model = test.model;
      const size_t changes = 1 + random() % 4;
      for (size_t i = 0; i < changes; ++i) model[random() % model.size()] = static_cast<char>(random());
      EXPECT_TRUE(Survives(model, test.inputs));
    }
  }
}

// Numbers of attributes and constants replaced by those that overflow.
TEST(HostileOnnx, AbsurdNumbers_NeverCrash) {
  std::mt19937 random(11);
  const int64_t absurd[] = {0,      -1, 1, 2, -7, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 40,
                            1 << 20};
  for (const Case& test : Cases()) {
    for (int round = 0; round < 25; ++round) {
      proto::ModelProto model;
      ASSERT_TRUE(model.ParseFromString(test.model));
      const auto any = [&] { return absurd[random() % std::size(absurd)]; };
      for (auto& node : *model.mutable_graph()->mutable_node()) {
        for (auto& attr : *node.mutable_attribute()) {
          if (attr.has_i() && random() % 2 == 0) attr.set_i(any());
          for (int i = 0; i < attr.ints_size(); ++i)
            if (random() % 3 == 0) attr.set_ints(i, any());
        }
      }
      for (auto& initializer : *model.mutable_graph()->mutable_initializer()) {
        if (initializer.data_type() == proto::TensorProto::INT64 && initializer.raw_data().size() >= 8 &&
            random() % 2 == 0) {
          const int64_t value = any();
          const size_t at = random() % (initializer.raw_data().size() / 8) * 8;
          std::memcpy(initializer.mutable_raw_data()->data() + at, &value, 8);
        }
        if (initializer.dims_size() > 0 && random() % 8 == 0) initializer.set_dims(0, any());
      }
      for (auto& input : *model.mutable_graph()->mutable_input()) {
        auto* shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
        if (shape->dim_size() > 0 && random() % 8 == 0)
          shape->mutable_dim(static_cast<int>(random() % static_cast<size_t>(shape->dim_size())))->set_dim_value(any());
      }
      EXPECT_TRUE(Survives(model.SerializeAsString(), test.inputs));
    }
  }
}

TEST(HostileOnnx, ATensorThatWouldFillTheMemory_IsRefused) {
  const auto model = TextModel(
      "output { name: 'y' } initializer { name: 's' data_type: 7 dims: 2 int64_data: 1048576 int64_data: 1048576 } "
      "node { op_type: 'ConstantOfShape' input: 's' output: 'big' } node { op_type: 'Exp' input: 'big' output: 'y' }");
  const auto imported = ImportOnnx(model.SerializeAsString());
  ASSERT_OK(imported);
  const auto results = RunOnce(imported->graph, {}, {imported->outputs[0].tensor});
  EXPECT_THAT(results, StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(HostileOnnx, AChainOfCallsThatDoubles_IsRefused) {
  std::string functions = "opset_import { version: 17 } opset_import { domain: 'd' version: 1 } ";
  for (int i = 0; i < 15; ++i) {
    const std::string callee = i == 0 ? "op_type: 'Neg'" : fmt::format("op_type: 'F{}' domain: 'd'", i - 1);
    functions += fmt::format(
        "functions {{ name: 'F{}' domain: 'd' input: 'a' output: 'c' opset_import {{ version: 17 }} "
        "opset_import {{ domain: 'd' version: 1 }} ",
        i);
    for (int copy = 0; copy < 8; ++copy)
      functions +=
          fmt::format("node {{ {} input: '{}' output: '{}' }} ", callee, copy == 0 ? "a" : fmt::format("v{}", copy),
                      copy == 7 ? "c" : fmt::format("v{}", copy + 1));
    functions += "} ";
  }
  const auto model = TextModel("input { " + Floats("x", {2}) +
                                   " } output { name: 'y' } node { op_type: 'F14' domain: 'd' input: 'x' output: 'y' }",
                               functions);
  ImportOptions options;
  options.limits.nodes = 2000;
  const auto imported = ImportOnnx(model.SerializeAsString(), options);
  EXPECT_THAT(imported, StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace rivulet::onnx
