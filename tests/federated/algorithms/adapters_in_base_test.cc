#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "federated/algorithms/adapter_rule.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// PEFT's names, B trained and A in the base; beside them a pair that is trained as a whole where `both`.
ModelLayout AdaptersWithAInTheBase(bool both) {
  std::vector<VariableSpec> variables = {
      {"m.fc.lora_A.weight", {DType::kFloat32, Shape{2, 4}}, Segment::kBase},
      {"m.fc.weight", {DType::kFloat32, Shape{5, 4}}, Segment::kBase},
      {"m.fc.lora_B.weight", {DType::kFloat32, Shape{5, 2}}, Segment::kTrainable},
  };
  if (both) {
    variables.push_back({"m.out.lora_A.weight", {DType::kFloat32, Shape{2, 4}}, Segment::kTrainable});
    variables.push_back({"m.out.lora_B.weight", {DType::kFloat32, Shape{5, 2}}, Segment::kTrainable});
  }
  return *ModelLayout::Create(variables, Sha256Of("a base"));
}

Status Composed(const std::string& rule, const ModelLayout& layout) {
  Scenario scenario;
  scenario.server.lora = rule;
  Composition composition;
  composition.server_optimizer = {"sgd"};
  return ComposeAdapters(scenario, layout, composition);
}

TEST(AdaptersInBase, AreFoundByTheNameOfTheOtherMatrix) {
  EXPECT_THAT(AdapterHalvesInBase(AdaptersWithAInTheBase(true)), ElementsAre("m.fc.lora_A.weight"));
  const VariableSpec alone[] = {{"m.fc.lora_A.weight", {DType::kFloat32, Shape{2, 4}}, Segment::kBase},
                                {"m.head.weight", {DType::kFloat32, Shape{2, 4}}, Segment::kTrainable}};
  EXPECT_THAT(AdapterHalvesInBase(*ModelLayout::Create(alone, Sha256Of("a base"))), IsEmpty());
}

TEST(AdaptersInBase, MeanOfBAlone_IsEveryMean) {
  for (const char* rule : {"", "average", "freeze_a"}) EXPECT_OK(Composed(rule, AdaptersWithAInTheBase(false))) << rule;
  EXPECT_OK(Composed("average", AdaptersWithAInTheBase(true)));
}

TEST(AdaptersInBase, RefusalsNameTheMatrix) {
  EXPECT_THAT(Composed("freeze_a", AdaptersWithAInTheBase(true)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'m.out.lora_A.weight' is trained")));
  EXPECT_THAT(Composed("stack", AdaptersWithAInTheBase(true)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'m.fc.lora_A.weight' is in the base model")));
  EXPECT_THAT(Composed("rank", AdaptersWithAInTheBase(false)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("freeze_a")));
  const VariableSpec plain[] = {{"m.head.weight", {DType::kFloat32, Shape{2, 4}}, Segment::kTrainable}};
  EXPECT_THAT(Composed("freeze_a", *ModelLayout::Create(plain)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no adapters")));
}

}  // namespace
}  // namespace rivulet
