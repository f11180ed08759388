// ONNX's test cases, run by the function behind `rivulet model check`: small ones beside this file (made by
// make_cases.py with onnxruntime's values), and those of the data folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "dataflow/session/session.h"
#include "engine/datasets/mnist.h"
#include "engine/onnx/check.h"
#include "engine/onnx/import.h"
#include "engine/onnx/operator.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> CasesIn(const fs::path& folder) {
  std::vector<std::string> cases;
  if (!fs::exists(folder)) return cases;
  for (const auto& entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "model.onnx")) cases.push_back(entry.path().string());
  std::ranges::sort(cases);
  return cases;
}

struct Counts {
  int passed = 0, skipped = 0;
};

// A case that needs what is not there is skipped with its reason; one that gives other values fails.
Counts CheckAll(const fs::path& folder, const KernelPolicy& kernels = {}) {
  Counts counts;
  onnx::CheckOptions options;
  options.kernels = kernels;
  for (const std::string& path : CasesIn(folder)) {
    const std::string name = fs::path(path).filename().string();
    const onnx::CheckReport report = onnx::CheckCase(path, options);
    if (report.passed) {
      ++counts.passed;
    } else if (report.unsupported) {
      ++counts.skipped;
      printf("conformance: skipped %s: %s\n", name.c_str(), report.message.c_str());
    } else {
      ADD_FAILURE() << name << ": " << report.message;
    }
  }
  printf("conformance: onnx %s: %d passed, %d skipped\n", folder.filename().c_str(), counts.passed, counts.skipped);
  return counts;
}

std::string DataFolder() {
  const char* folder = std::getenv("RIVULET_TEST_DATA");
  return folder == nullptr ? "" : folder;
}

// Every case that stands beside this file is a test of its own.
class CommittedCase : public ::testing::TestWithParam<std::string> {};

TEST_P(CommittedCase, Outputs_AreOnnxRuntimes) {
  const onnx::CheckReport report = onnx::CheckCase(GetParam());
  EXPECT_TRUE(report.passed) << report.message;
}

TEST_P(CommittedCase, OutputsForAnOpenBatch_AreOnnxRuntimes) {
  const onnx::CheckReport report = onnx::CheckCase(GetParam(), {.open_batch = true});
  EXPECT_TRUE(report.passed) << report.message;
}

INSTANTIATE_TEST_SUITE_P(Onnx, CommittedCase, ::testing::ValuesIn(CasesIn(RIVULET_ONNX_CASES)),
                         [](const auto& info) { return fs::path(info.param).filename().string(); });

TEST(OnnxCases, CommittedCasesWithPortableKernels_GiveOnnxRuntimesValues) {
  EXPECT_EQ(CheckAll(RIVULET_ONNX_CASES, {.portable = true}).skipped, 0);
}

TEST(OnnxCases, NodeCases_GiveTheirOutputs) {
  if (DataFolder().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  EXPECT_GE(CheckAll(fs::path(DataFolder()) / "onnx" / "node").passed, 84);
}

TEST(OnnxCases, ModelsConvertedFromPyTorch_GiveTheirOutputs) {
  if (DataFolder().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  EXPECT_GE(CheckAll(fs::path(DataFolder()) / "onnx" / "pytorch-converted").passed, 13);
}

// Networks that others trained recognise digits that they were not trained on.
class TrainedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedModel, TestDigits_AreRecognised) {
  if (DataFolder().empty()) GTEST_SKIP() << "RIVULET_TEST_DATA is not set";
  const fs::path data = DataFolder();
  const auto images = ReadIdx(data / "mnist" / "t10k-images-idx3-ubyte.gz", 3);
  const auto labels = ReadIdx(data / "mnist" / "t10k-labels-idx1-ubyte.gz", 1);
  ASSERT_OK(images);
  ASSERT_OK(labels);
  const auto bytes = FileSystem::Default().ReadAll(data / "onnx" / "models" / GetParam());
  ASSERT_OK(bytes);
  auto model = onnx::ImportOnnx(*bytes);
  ASSERT_OK(model);
  ASSERT_EQ(model->inputs.size(), 1u);
  const std::string input = model->inputs[0].tensor, output = model->outputs[0].tensor;
  const auto weights = std::move(model->weights);
  auto session = Session::Create(std::move(model->graph));
  ASSERT_OK(session);
  for (const auto& weight : weights) ASSERT_OK((*session)->SetVariable(weight.variable, weight.value));
  constexpr int kImages = 500;
  int right = 0;
  for (int i = 0; i < kImages; ++i) {
    Tensor image(DType::kFloat32, Shape{1, 1, 28, 28});
    for (size_t p = 0; p < 784; ++p)
      image.flat<float>()[p] =
          static_cast<float>(static_cast<uint8_t>(images->data[static_cast<size_t>(i) * 784 + p])) / 255.0f;
    const auto scores = (*session)->Run({{input, image}}, {output});
    ASSERT_OK(scores);
    const auto values = (*scores)[0].flat<float>();
    right +=
        std::ranges::max_element(values) - values.begin() == static_cast<uint8_t>(labels->data[static_cast<size_t>(i)]);
  }
  // onnxruntime recognises 494 and 493 of these 500.
  EXPECT_GE(right, 492);
}

INSTANTIATE_TEST_SUITE_P(Mnist, TrainedModel,
                         ::testing::Values("mnist-cnn-pytorch.onnx", "mnist-cnn-cntk-optimized.onnx"),
                         [](const auto& info) { return info.index == 0 ? "pytorch" : "cntk"; });

TEST(OnnxOperators, EveryOperator_StandsInTheDocumentation) {
  const auto page = FileSystem::Default().ReadAll(RIVULET_ONNX_DOC);
  ASSERT_OK(page);
  for (const onnx::Operator* op : onnx::OperatorRegistry::Global().All())
    EXPECT_NE(page->find("`" + op->name + "`"), std::string::npos) << op->name;
}

}  // namespace
}  // namespace rivulet
